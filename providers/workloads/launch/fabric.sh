#!/bin/sh
# Where NCCL finds the plugin of the network that joins this machine to others: `fabric_path` is
# what its library path has to name, the variables of the plugin are exported. Nothing where there
# is no such network.

use_fabric() {
  fabric_path="" gib=/usr/local/gib
  [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] || return 0
  for place in /opt/amazon/ofi-nccl/lib /opt/amazon/ofi-nccl/lib/*-linux-gnu \
    /opt/amazon/efa/lib; do
    [ ! -d "$place" ] || fabric_path="$fabric_path${fabric_path:+:}$place"
  done
  if [ -r "$gib/scripts/set_nccl_env.sh" ]; then
    fabric_path=$gib/lib64
    # shellcheck disable=SC2016 # expanded by bash, which the plugin's own script is written for
    eval "$(bash -c '. "$1" >/dev/null 2>&1; export -p' - "$gib/scripts/set_nccl_env.sh" |
      sed -n 's/^declare -x NCCL_/export NCCL_/p')"
  fi
}
