#!/bin/bash
# The part of start.sh for several machines that a fast network joins: NCCL finds its plugin, and
# may use the devices and pin memory, in containers too. Nothing where there is no such network.
: "${image?}"

join_fabric() {
  # shellcheck disable=SC2034 # read by container.sh
  fabric_options=() fabric_line=""
  use_fabric
  [ -d /dev/infiniband ] || return 0
  ulimit -l unlimited 2>/dev/null
  fabric_options=(--device /dev/infiniband --ulimit memlock=-1)
  [ ! -d /etc/libibverbs.d ] || fabric_options+=(-v /etc/libibverbs.d:/etc/libibverbs.d:ro)
  [ -n "$fabric_path" ] || return 0
  if [ -z "$image" ]; then
    export LD_LIBRARY_PATH="$fabric_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    return
  fi
  carry_plugin
  # An image with a plugin of its own keeps it.
  # shellcheck disable=SC2034 # read by container.sh
  fabric_line="ls -d /opt/amazon/*ofi-nccl /usr/local/gib >/dev/null 2>&1 ||
export LD_LIBRARY_PATH=\"$GPUS_ROOT/fabric\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}\"
"
}

# carry_plugin: into a folder that containers see, with what the plugin needs but for what is the
# image's own (the C and C++ libraries) or the driver's.
carry_plugin() {
  carried="$GPUS_ROOT/fabric"
  rm -rf "$carried"
  mkdir -p "$carried"
  shopt -s nullglob
  libraries=(/usr/lib/*-linux-gnu/lib{ibverbs,efa,mlx5}.so.1)
  libraries+=(/usr/lib/*-linux-gnu/libibverbs/lib*-rdmav*.so)
  for place in ${fabric_path//:/ }; do libraries+=("$place"/lib*.so*); done
  shopt -u nullglob
  for library in "${libraries[@]}"; do
    logged cp -L "$library" "$carried"
    ldd "$library" 2>/dev/null
  done | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u |
    grep -vE '/lib(c|m|dl|pthread|rt|resolv|stdc\+\+|gcc_s|z|ssl|crypto|cuda|nvidia-[^/]*)\.so' |
    while read -r library; do logged cp -nL "$library" "$carried"; done
}
