#!/bin/sh
# Runs a command by mpirun on all nodes: the first one starts it and tells the others how it ended.
# Words after the last line are the command's further arguments.
: "${nodes:?}" "${work:?}" "${wait_s:?}"
# The job runs as whom the machine starts it, which is root at most clouds.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
job=""

because() {
  echo "gpus: $*"
  [ -s "$GPUS_ROOT/why" ] || echo "$*" >"$GPUS_ROOT/why"
}

# shellcheck disable=SC2029 # what is to be expanded there is in single quotes, or escaped
on() { # node command
  ssh "node-$1" "$2" </dev/null
}

workers() { seq 1 "$((nodes - 1))"; }

# over CODE: told to the others, as far as they are there.
over() {
  echo "$1" >"$GPUS_ROOT/over"
  for node in $(workers); do on "$node" "echo $1 >\"\$GPUS_ROOT/over\"" 2>/dev/null & done
  wait
}

end() { # signal the command's processes here; mpirun ends the others
  [ -z "$job" ] || kill -TERM -- "-$job" 2>/dev/null
}

# watch NODE: holds a login there until all is over.
watch() {
  # shellcheck disable=SC2016 # expanded there
  on "$1" 'until [ -e "$GPUS_ROOT/over" ]; do sleep 1; done' 2>/dev/null
  [ -e "$GPUS_ROOT/over" ] || {
    because "node-$1 is lost: it ended, or does not answer"
    end
  }
}

lead() { # the command's further arguments
  for node in $(workers); do
    for _ in $(seq "$wait_s"); do
      on "$node" true 2>/dev/null && continue 2
      sleep 1
    done
    because "node-$node did not take a login by ssh within ${wait_s}s: $(on "$node" true 2>&1)"
    return 69
  done
  setsid sh -c "$work \"\$@\"" sh "$@" &
  job=$!
  for node in $(workers); do watch "$node" & done
  wait "$job"
  code=$?
  if [ "$code" != 0 ]; then
    for node in $(workers); do on "$node" true 2>/dev/null || because "node-$node is lost"; done
  fi
  return "$code"
}

# A worker is there for the leader's logins, until it is told, or the leader is gone.
follow() {
  seen="" missed=0 waited=0
  until [ -s "$GPUS_ROOT/over" ]; do
    sleep 1
    waited=$((waited + 1))
    [ $((waited % 30)) = 0 ] || continue
    if on 0 true 2>/dev/null; then
      seen=yes missed=0
    elif [ -n "$seen" ]; then
      missed=$((missed + 1))
    fi
    if [ "$missed" = 4 ]; then
      because "the leader, node-0, does not answer"
      return 69
    fi
  done
  return "$(cat "$GPUS_ROOT/over")"
}

if [ ! -x "$GPUS_ROOT/bin/ssh" ]; then
  because "the nodes have no key to each other, or no sshd: replace the machines"
  exit 69
fi
if [ "$GPUS_NODE_RANK" != 0 ]; then
  follow
  exit
fi
trap 'end; over 143; exit 143' TERM INT
lead "$@"
code=$?
over "$code"
exit "$code"
