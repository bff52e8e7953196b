#!/bin/bash
# Installs NCCL's plugin for the RDMA network between the machines, once. What follows this program
# runs whatever becomes of it: acceptance finds a machine that has no plugin.
nccl_gib() {
  [ ! -e /usr/local/gib/scripts/set_nccl_env.sh ] || return 0
  export DEBIAN_FRONTEND=noninteractive
  keyring=/usr/share/keyrings/gpudirect-gib.gpg
  source=https://packages.cloud.google.com/apt
  for pause in 5 20 60 0; do
    curl -fsSL "$source/doc/apt-key.gpg" | gpg --dearmor --yes -o "$keyring" &&
      echo "deb [signed-by=$keyring] $source gpudirect-gib-apt main" \
        >/etc/apt/sources.list.d/nccl-gib.list &&
      apt-get update -q && apt-get install -qy nccl-gib && return
    sleep "$pause"
  done
  echo 'gpus: NCCL/gIB could not be installed: what is between the machines goes over TCP' >&2
}

(nccl_gib)
