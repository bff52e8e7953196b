#!/bin/bash
# The part of start.sh that waits until the machine is accepted: the engine measures its GPUs first,
# which have to be free, and then writes `go` into the folder by login.
: "${wait_s:?}"

wait_for_go() {
  for _ in $(seq "$wait_s"); do
    [ ! -e "$GPUS_ROOT/go" ] || return 0
    sleep 1
  done
  say setup-failed 1 nobody said that the machine is accepted
  exit 1
}
