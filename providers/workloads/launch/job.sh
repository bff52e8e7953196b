#!/bin/bash
# The part of start.sh for what ends.
: "${digest:?}" "${to?}" "${release?}" "${unsaved:?}"
declare -a process_lines

meaning() { :; }

run_job() {
  saver=""
  if [ -n "$to" ]; then
    keep_saving 9>&- &
    saver=$!
  fi
  set -m
  for index in "${!process_lines[@]}"; do
    start "$index" &
    pids="$pids $!"
  done
  set +m
  code=0
  for pid in $pids; do wait "$pid" || code=$?; done
  [ -z "$saver" ] || kill "$saver" 2>/dev/null
  lost=""
  if [ -n "$to" ] && ! save_at_last; then
    lost=1
    echo "gpus: it ended with $code, and its checkpoints could not be saved: its machine stays" \
      >>"$GPUS_ROOT/log"
    [ "$code" != 0 ] || code=$unsaved
  fi
  echo "$code" >"$GPUS_ROOT/$digest.done"
  why=$(meaning)
  if [ "$code" = 0 ]; then state=succeeded; else state=failed; fi
  say "$state" "$code" ${why:+"$why"}
  rm -f "$GPUS_ROOT/main.pid"
  if [ -n "$release" ] && [ -z "$lost" ]; then
    sync
    eval "$release"
  fi
  exit "$code"
}
