#!/bin/bash
# The part of start.sh that waits for what the engine writes into the folder by login.
: "${nodes?}" "${token_name?}" "${wait_s:?}"

known_peers() { if [ -r "$GPUS_ROOT/peers" ]; then grep -c . "$GPUS_ROOT/peers"; else echo 0; fi; }

# The first peer leads.
wait_for_peers() {
  for _ in $(seq "$wait_s"); do
    [ "$(known_peers)" -ge "$nodes" ] && break
    sleep 1
  done
  if [ "$(known_peers)" -lt "$nodes" ]; then
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
}

wait_for_token() {
  for _ in $(seq "$wait_s"); do
    [ -s "$GPUS_ROOT/token" ] && break
    sleep 1
  done
  if [ ! -s "$GPUS_ROOT/token" ]; then
    say setup-failed 1 "no token was written to $GPUS_ROOT/token"
    exit 1
  fi
  token=$(cat "$GPUS_ROOT/token")
  export "$token_name=$token"
}
