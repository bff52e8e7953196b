#!/bin/sh
# Runs a command on Ray: the first node leads, the others lend it their GPUs until it ends. Words
# after the last line are the command's further arguments.
: "${gpus:?}" "${nodes:?}" "${port:?}" "${work:?}"
# Ray's daemons leave the process group, so they are ended by name when the program is to give way.
stop() { ray stop >/dev/null 2>&1; }
trap 'stop; exit 143' TERM INT

start() { # options
  # Of several addresses of a machine, the one by which the others know it; Ray itself takes the one
  # that leads to the internet.
  [ "$nodes" = 1 ] || set -- "$@" --node-ip-address="$GPUS_ADDRESS"
  ray start "$@" --num-gpus="$gpus" --disable-usage-stats
}

alive() {
  python3 -c "
import ray
ray.init(logging_level='error')
print(sum(node['Alive'] for node in ray.nodes()))" 2>/dev/null | tail -n 1
}

lead() { # the command's further arguments
  start --head --port="$port" --dashboard-host=127.0.0.1 || return
  export RAY_ADDRESS="$leader:$port"
  for _ in $(seq 120); do
    [ "$nodes" -gt 1 ] || break
    [ "$(alive)" -ge "$nodes" ] && break
    sleep 5
  done
  (
    trap - TERM INT
    eval "$work \"\$@\""
  )
}

join() {
  for _ in $(seq 120); do
    start --address="$leader:$port" && break
    sleep 5
  done
  # It ends when its head does; that is no failure of its own.
  while ray health-check --address "$leader:$port" >/dev/null 2>&1; do sleep 5; done
}

on_ray() {
  leader=127.0.0.1
  [ "$nodes" = 1 ] || leader=$GPUS_LEADER
  if [ "$nodes" = 1 ] || [ "$GPUS_NODE_RANK" = 0 ]; then lead "$@"; else join; fi
  code=$?
  stop
  exit "$code"
}

on_ray "$@"
