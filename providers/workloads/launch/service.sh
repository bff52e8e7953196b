#!/bin/bash
# The part of start.sh for what runs on, and is started again whenever it ends.
: "${to?}" "${health_every:?}" "${restart_most:?}"
declare -a process_lines process_urls

# answers URL: whether with 2xx or 3xx; images of servers may come without curl.
answers() {
  if command -v curl >/dev/null; then
    curl -fsS -o /dev/null --max-time 4 "$1" 2>/dev/null
    return
  fi
  # shellcheck disable=SC2016 # expanded by the shell that timeout starts
  timeout 4 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/${1%%/*}" &&
    printf "GET /%s HTTP/1.0\r\n\r\n" "${1#*/}" >&3 &&
    read -r _ code _ <&3 &&
    case $code in 2* | 3*) ;; *) exit 1 ;; esac' - "${1#http://127.0.0.1:}" 2>/dev/null
}

# restart INDEX: later and later while it keeps ending at once.
restart() {
  trap - TERM INT
  set +m
  pause=1
  while :; do
    began=$SECONDS
    start "$1"
    echo "gpus: process $1 ended with $?; started again in ${pause}s" >>"$GPUS_ROOT/log"
    sleep "$pause"
    if [ $((SECONDS - began)) -gt 300 ]; then
      pause=1
    elif [ "$pause" -lt "$restart_most" ]; then
      pause=$((pause * 2))
    fi
  done
}

run_service() {
  set -m
  if [ -n "$to" ]; then
    keep_saving 9>&- &
    pids=$!
  fi
  for index in "${!process_lines[@]}"; do
    restart "$index" 9>&- &
    pids="$pids $!"
  done
  set +m
  ready=""
  while :; do
    up=1
    for url in "${process_urls[@]}"; do
      [ -z "$url" ] || answers "$url" || up=""
    done
    if [ "$up" != "$ready" ]; then
      ready=$up
      if [ -n "$up" ]; then say ready; else say running; fi
    fi
    sleep "$health_every" &
    wait $!
  done
}
