#!/bin/bash
# The part of start.sh for a folder that the engine sends by login; the command runs in it.
: "${workdir:?}" "${workdir_wait:?}"

arrived() { [ "$(cat "$GPUS_ROOT/workdir.digest" 2>/dev/null)" = "$workdir" ]; }

wait_for_workdir() {
  for _ in $(seq "$workdir_wait"); do
    arrived && cd "$GPUS_ROOT/workdir" && return
    sleep 1
  done
  say setup-failed 1 the folder of workdir did not arrive
  exit 1
}
