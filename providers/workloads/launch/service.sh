#!/bin/bash
# The part of start.sh for what runs on, and is started again whenever it ends.
: "${to?}" "${health_every:?}" "${restart_most:?}"
declare -a process_lines process_urls

# answers URL: whether with 2xx or 3xx; images of servers may come without curl.
answers() {
  if command -v curl >/dev/null; then
    curl --noproxy '*' -fsS -o /dev/null --max-time 4 "$1" 2>/dev/null
    return
  fi
  # shellcheck disable=SC2016 # expanded by the shell that timeout starts
  timeout 4 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/${1%%/*}" &&
    printf "GET /%s HTTP/1.0\r\n\r\n" "${1#*/}" >&3 &&
    read -r _ code _ <&3 &&
    case $code in 2* | 3*) ;; *) exit 1 ;; esac' - "${1#http://127.0.0.1:}" 2>/dev/null
}

# works INDEX, begins INDEX, ended INDEX CODE, go_on: as a part after this one has them.
works() { [ -z "${process_urls[$1]}" ] || answers "${process_urls[$1]}"; }
begins() { :; }
ended() { sleep "$pause"; }
go_on() { :; }

# restart INDEX: later and later while it keeps ending at once.
restart() {
  trap - TERM INT
  set +m
  pause=1
  while :; do
    began=$SECONDS
    begins "$1"
    start "$1"
    code=$?
    echo "gpus: process $1 ended with $code; started again in ${pause}s" >>"$GPUS_ROOT/log"
    ended "$1" "$code"
    if [ $((SECONDS - began)) -gt 300 ]; then
      pause=1
    elif [ "$pause" -lt "$restart_most" ]; then
      pause=$((pause * 2))
    fi
  done
}

begin() {
  pids=""
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
}

run_service() {
  begin
  ready="" why=""
  while :; do
    go_on
    up=1
    for index in "${!process_urls[@]}"; do
      works "$index" || { up="" && break; }
    done
    if [ "$up" != "$ready" ]; then
      ready=$up
      if [ -n "$up" ]; then say ready; else say running ${why:+"$why"}; fi
    fi
    sleep "$health_every" 9>&- &
    wait $!
  done
}
