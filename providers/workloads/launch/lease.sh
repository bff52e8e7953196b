#!/bin/bash
# The part of start.sh for a lease on a machine of the user's own, after container.sh: the machine
# is used as it is, and nothing but the cards that are lent.
# shellcheck disable=SC2034 # read by the other parts
: "${kept?}" "${image?}"
declare -a process_env

# Several leases may share a machine.
process_names=(${process_names[@]+"${process_names[@]/%/-$GPUS_LEASE}"})
secrets=$GPUS_SECRETS
# Only root may write where it is elsewhere.
signed_in=$GPUS_ROOT/registry

# Nothing is switched off afterwards.
sync() { :; }

install_docker() {
  # A folder of the lease is the container's, so that nothing stays on the machine.
  [ -z "$kept" ] || at=":$kept" kept=$GPUS_ROOT/kept
  # Inside, the cards are numbered anew.
  unset CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES
  logged docker version && return
  say setup-failed 1 "docker does not answer to $(id -un) here: install it with the toolkit of" \
    "NVIDIA, and let the user into the group docker"
  exit 1
}

# mount_tool NAME
mount_tool() {
  command -v "$1" >/dev/null && return
  say setup-wrong 1 "$1 is not on this machine, on which nothing is installed: install it there"
  exit 1
}

# mount_place PATH: a container finds it there wherever the machine has it, so that no user needs a
# folder of the machine, and leases do not share one.
mount_place() {
  [ -z "$image" ] || printf %s "${GPUS_LEASE_FOLDER%/leases/*}/mounts/$GPUS_LEASE"
  printf %s "$1"
}

# Outside of a container, numbers of cards are those of the lease.
name_cards() {
  IFS=, read -r -a lent <<<"$NVIDIA_VISIBLE_DEVICES"
  for entry in "${!process_env[@]}"; do
    case "${process_env[entry]}" in *" CUDA_VISIBLE_DEVICES="*) ;; *) continue ;; esac
    IFS=, read -r -a numbers <<<"${process_env[entry]#*=}"
    named=""
    for number in ${numbers[@]+"${numbers[@]}"}; do
      case "$number" in *[!0-9]*) ;; *) number=${lent[number]:-none} ;; esac
      named="$named${named:+,}$number"
    done
    process_env[entry]="${process_env[entry]%%=*}=$named"
  done
}

[ -n "$image" ] || name_cards
