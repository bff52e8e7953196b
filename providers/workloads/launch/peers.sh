#!/bin/bash
# The part of start.sh that waits for the addresses that the engine writes into the folder by login,
# after what leads from one to the other.
: "${nodes?}" "${wait_s:?}"

all_known() { [ "0$(grep -cs . "$GPUS_ROOT/peers")" -ge "$nodes" ]; }

# The first peer leads.
wait_for_peers() {
  for _ in $(seq "$wait_s"); do
    all_known && break
    sleep 1
  done
  if ! all_known; then
    say setup-failed 1 the other nodes did not appear
    exit 1
  fi
  GPUS_LEADER=$(head -n 1 "$GPUS_ROOT/peers")
  export GPUS_LEADER GPUS_NODES="$nodes"
  if [ -z "${GPUS_NODE_RANK:-}" ]; then
    names=" $(hostname -I 2>/dev/null) $(hostname) $(hostname -f 2>/dev/null) "
    rank=0
    while read -r peer; do
      case "$names" in *" $peer "*) GPUS_NODE_RANK=$rank ;; esac
      rank=$((rank + 1))
    done <"$GPUS_ROOT/peers"
  fi
  if [ -z "${GPUS_NODE_RANK:-}" ]; then
    say setup-failed 1 none of the peers is this machine
    exit 1
  fi
  GPUS_ADDRESS=$(sed -n "$((GPUS_NODE_RANK + 1))p" "$GPUS_ROOT/peers")
  export GPUS_NODE_RANK GPUS_ADDRESS
  # shellcheck source=/dev/null
  [ ! -r "$GPUS_ROOT/between.sh" ] || . "$GPUS_ROOT/between.sh"
}
