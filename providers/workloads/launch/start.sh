#!/bin/bash
# Starts what this machine is for, and says on the console how far it is. Runs at each boot, and
# again when the program changes. Nothing of the user's is expanded here: only the program's own
# shell expands its line.
: "${digest:?}" "${kind:?}" "${kept?}" "${to?}" "${setup?}" "${image?}"
: "${console:?}" "${folder:?}" "${secrets:?}" "${inside?}" "${resume?}"
declare -a file_paths file_contents
# Functions of its parts, in order: what is installed, and what its command waits for.
declare -a steps
# One line a process, and "INDEX NAME=VALUE" for each of their variables.
declare -a process_lines process_env

set -u
root="${GPUS_ROOT:-$folder}"
mkdir -p "$root" 2>/dev/null
export HOME="${HOME:-/root}" GPUS_ROOT="$root"
pids="" containers=() by_ssh=""

# say STATE [DETAIL]: on the console also where nothing can be written here.
say() {
  word="$console $digest $*"
  printf '%s\n' "$word" >>"${GPUS_CONSOLE:-/dev/console}" 2>/dev/null || printf '%s\n' "$word"
  printf '%s\n' "$word" >>"$root/log"
  printf '%s\n' "$word" >"$root/status.new" && mv "$root/status.new" "$root/status"
}

logged() { "$@" >>"$root/log" 2>&1 9>&-; }

# tries COMMAND...: some times, as far as it may be a matter of time.
tries() {
  for pause in 1 5 20 0; do
    logged "$@" && return
    sleep "$pause"
  done
  return 1
}

# Another program gives way. The lock says whether one runs: after a reboot the process of that
# number is another one. Who has it has written down what it is within a second.
take_over() {
  exec 9>>"$root/lock"
  if ! flock -w 1 9; then
    if kill -0 "$(cat "$root/main.pid")" 2>/dev/null; then
      [ "$(cat "$root/main.digest")" != "$digest" ] || exit 0
      kill -TERM "$(cat "$root/main.pid")"
    fi
    flock 9
  fi
  echo $$ >"$root/main.pid"
  echo "$digest" >"$root/main.digest"
}

stop_all() {
  for pid in $pids; do kill -TERM -- "-$pid" 2>/dev/null; done
  for _ in $(seq 20); do
    alive=""
    for pid in $pids; do kill -0 -- "-$pid" 2>/dev/null && alive=1; done
    [ -n "$alive" ] || break
    sleep 0.5
  done
  for pid in $pids; do kill -KILL -- "-$pid" 2>/dev/null; done
  [ "${#containers[@]}" = 0 ] || docker rm -f "${containers[@]}" >/dev/null 2>&1
}

# there PATH: a relative one lies in the home folder.
there() {
  case "$1" in
    /*) printf %s "$1" ;;
    *) printf %s "$HOME/$1" ;;
  esac
}

write_files() {
  for ((index = 0; index < ${#file_paths[@]}; index++)); do
    path=$(there "${file_paths[index]}")
    mkdir -p "$(dirname -- "$path")" &&
      printf %s "${file_contents[index]}" | base64 -d | gunzip >"$path"
  done
}

run_setup() {
  [ ! -e "$root/$digest.setup" ] || return 0
  printf %s "$setup" >"$root/setup.sh"
  code=0
  logged bash -euo pipefail "$root/setup.sh" || code=$?
  if [ "$code" != 0 ]; then
    say setup-wrong "$code" the setup lines, see the log
    exit 1
  fi
  touch "$root/$digest.setup"
}

has_checkpoint() { [ -n "$kept" ] && [ -n "$(ls -A "$kept" 2>/dev/null)" ]; }

# start INDEX: its process group is that of whoever calls it.
start() (
  trap - TERM INT
  line=${process_lines[$1]} own=()
  if [ "$1" = 0 ] && [ -n "$resume" ] && has_checkpoint; then line="$line $resume"; fi
  # shellcheck disable=SC2016 # expanded by the program's shell
  [ -z "$by_ssh" ] || line='PATH="$GPUS_ROOT/bin:$PATH"; '$line
  gpus_command=(bash -c "$line")
  [ -z "$image" ] || set_caches "$1"
  for entry in ${process_env[@]+"${process_env[@]}"}; do
    [ "${entry%% *}" != "$1" ] || own+=("${entry#* }")
  done
  if [ -n "$image" ]; then
    run_in_container "$1" "$line"
  elif [ -n "$by_ssh" ]; then
    keep_env ${own[@]+"${own[@]}"}
  fi
  # From here on the user's variables may have taken the place of any of these.
  set -- "$image" ${own[@]+"${own[@]}"}
  [ $# = 1 ] || export "${@:2}"
  [ -z "$1" ] || write_env_file
  exec "${gpus_command[@]}"
) >>"$root/log" 2>&1 9>&-

if [ "$(cat "$root/$digest.done" 2>/dev/null)" = 0 ]; then
  say succeeded 0 earlier
  # The machine may have gone down before it was released.
  [ -z "${release-}" ] || eval "$release"
  exit 0
fi
take_over
# shellcheck source=/dev/null
[ ! -r "$secrets" ] || { set -a; . "$secrets"; set +a; }
trap 'stop_all; [ -z "$to" ] || save; exit 143' TERM INT
if [ -z "$inside" ]; then
  trap unmount_buckets EXIT
  unmount_buckets
fi
say starting
# Where the files lie, so that a command names them as the declaration does. An image keeps its own
# folder where there are none.
if [ -z "$inside" ] || [ "${#file_paths[@]}" != 0 ]; then cd "$HOME" || exit 1; fi
write_files
for step in ${steps[@]+"${steps[@]}"}; do "$step"; done
if [ -n "$image" ]; then
  pull_image
  [ -z "$setup" ] || set_up_image
  # After the setup lines, which may fetch models.
  find_models
elif [ -n "$setup" ]; then
  run_setup
fi
[ -z "$kept" ] || mkdir -p "$kept"
[ -z "$to" ] || restore
say running
if [ "$kind" = job ]; then run_job; else run_service; fi
