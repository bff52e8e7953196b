#!/bin/bash
# The part of start.sh that says why a machine cannot be set up.
: "${console:?}" "${digest:?}"

begun="$console $digest starting"

# The last error that a tool wrote since the start.
last_error() {
  found=$(grep -aE "^(E|docker|dpkg|curl|gpus): |^$begun" "$GPUS_ROOT/log" | tail -n 1)
  [[ $found = "$begun"* ]] || printf %s "${found:0:300}"
}

# The last word of a full disk since then, which other errors may follow.
full_disk() {
  tac "$GPUS_ROOT/log" | sed "/^$begun/q" |
    grep -aEm 1 "o space left on device|enough free space" | cut -c -300
}

check_room() {
  free=$(df -Pk "$GPUS_ROOT" 2>/dev/null | { read -r _ && read -r _ _ _ free _ && echo "$free"; })
  [ "${free:-1024}" -lt 1024 ] || return 0
  say setup-wrong 1 "the disk is full, see disk_gib: less than 1 MiB is free at $GPUS_ROOT"
  exit 1
}

# give_up STATE CODE WHAT: it cannot be set up.
give_up() {
  state=$1 code=$2 why=$(last_error) full=$(full_disk)
  [ -z "$full" ] || state=setup-wrong why="the disk is full, see disk_gib: $full"
  say "$state" "$code" "${*:3}: ${why:-see the log}"
  exit 1
}
