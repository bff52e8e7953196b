#!/bin/bash
# The part of start.sh that says why a machine cannot be set up.
: "${console:?}" "${digest:?}"

# The last error that a tool wrote since the start.
last_error() {
  begun="$console $digest starting"
  found=$(grep -aE "^(E|docker|dpkg|curl|gpus): |^$begun" "$GPUS_ROOT/log" | tail -n 1)
  [[ $found = "$begun"* ]] || printf %s "${found:0:300}"
}

disk_is_full() { [[ $(last_error) = *@("o space left on device"|"enough free space")* ]]; }

check_room() {
  free=$(df -Pk "$GPUS_ROOT" 2>/dev/null | { read -r _ && read -r _ _ _ free _ && echo "$free"; })
  [ "${free:-1024}" -lt 1024 ] || return 0
  say setup-wrong 1 "the disk is full, see disk_gib: less than 1 MiB is free at $GPUS_ROOT"
  exit 1
}

# give_up STATE CODE WHAT: it cannot be set up.
give_up() {
  state=$1 code=$2 why=$(last_error)
  if disk_is_full; then state=setup-wrong why="the disk is full, see disk_gib: $why"; fi
  say "$state" "$code" "${*:3}: ${why:-see the log}"
  exit 1
}
