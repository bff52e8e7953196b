#!/bin/bash
# The part of start.sh that makes buckets folders of this machine.
#
# gcsfuse: its package source and key, --implicit-dirs, --only-dir, -o ro, -o allow_other,
# --dir-mode and --file-mode are from "Install Cloud Storage FUSE" and "gcsfuse CLI" (Google,
# 2026-11). It logs in as the machine's service account.
# mount-s3: its packages, --prefix (which ends in /), --read-only, --allow-delete,
# --allow-overwrite, --allow-other, --dir-mode and --file-mode are from "Installing Mountpoint" and
# "Configuring Mountpoint" (Amazon, 2026-11). It logs in by AWS_ACCESS_KEY_ID or as the instance's
# profile.
# Both fail at once where the bucket is not there or the account may not list it, and go to the
# background. They end when start.sh unmounts: a unit of systemd with KillMode=mixed would kill what
# it leaves behind, before it has written all.
declare -a mount_paths mount_sources mount_modes
mount_places=()

# mount_place PATH: where the machine has what the program finds at this path.
mount_place() { printf %s "$1"; }

install_gcsfuse() {
  keyring=/usr/share/keyrings/cloud.google.asc
  packages=https://packages.cloud.google.com/apt
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  curl -fsSL "$packages/doc/apt-key.gpg" -o "$keyring" &&
    echo "deb [signed-by=$keyring] $packages gcsfuse-$codename main" \
      >/etc/apt/sources.list.d/gcsfuse.list &&
    install_packages gcsfuse
}

install_mount_s3() {
  machine=$(uname -m)
  [ "$machine" != aarch64 ] || machine=arm64
  package=/tmp/mount-s3.deb
  curl -fsSL "https://s3.amazonaws.com/mountpoint-s3-release/latest/$machine/mount-s3.deb" \
    -o "$package" && install_packages "$package"
}

# mount_tool NAME INSTALL
mount_tool() {
  command -v "$1" >/dev/null || tries "$2" || {
    give_up setup-failed 1 "$1 is not there and could not be installed"
  }
}

# bucket_mounted PATH SOURCE MODE
bucket_mounted() {
  bucket=${2#*://}
  prefix=${bucket#"${bucket%%/*}"}
  bucket=${bucket%%/*} prefix=${prefix#/}
  prefix=${prefix%/}
  modes=() others=yes
  [ "$3" = ro ] || modes=(--dir-mode 777 --file-mode 666)
  # Root's mount is for whoever logs in; another user's is for Docker, and needs leave for that.
  [ "$(id -u)" = 0 ] || [ -n "$image" ] || others=""
  case "$2" in
    gs://*)
      gcsfuse --implicit-dirs ${others:+-o allow_other} ${modes[@]+"${modes[@]}"} \
        ${prefix:+--only-dir "$prefix"} -o "$3" "$bucket" "$1"
      ;;
    *)
      if [ "$3" = ro ]; then modes=(--read-only); else modes+=(--allow-delete --allow-overwrite); fi
      mount-s3 ${others:+--allow-other} "${modes[@]}" ${prefix:+--prefix "$prefix/"} \
        ${GPUS_S3_ENDPOINT:+--endpoint-url "$GPUS_S3_ENDPOINT"} "$bucket" "$1"
      ;;
  esac
}

mount_buckets() {
  for index in "${!mount_paths[@]}"; do
    path=${mount_paths[index]} from=${mount_sources[index]} mode=${mount_modes[index]}
    case "$from" in
      gs://*) mount_tool gcsfuse install_gcsfuse ;;
      *) mount_tool mount-s3 install_mount_s3 ;;
    esac
    at=$(mount_place "$path")
    # shellcheck disable=SC2034 # read by container.sh
    mount_places[index]=$at
    if grep -qF " $at " /proc/self/mounts || ! logged mkdir -p "$at" || [ ! -w "$at" ]; then
      say setup-wrong 1 "$(id -un) can mount nothing at $path: make it a free folder of" \
        "$(id -un)'s own on the machine, or mount elsewhere"
      exit 1
    fi
    echo "$at" >>"$GPUS_ROOT/mounted"
    if ! tries bucket_mounted "$at" "$from" "$mode"; then
      what="read"
      [ "$mode" = ro ] || what="read and write"
      say setup-wrong 1 "$from could not be mounted at $path: is it there, and may this machine" \
        "$what it? see the log"
      exit 1
    fi
  done
}
