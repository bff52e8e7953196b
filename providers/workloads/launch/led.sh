#!/bin/bash
# The part of start.sh for a program over several nodes of which the first one leads, after all
# others: its end is the job's, its health the service's.
declare -a process_urls
lost=""

leads() { [ "$GPUS_NODE_RANK" = 0 ]; }

# Of a server the first one is asked, so only that one gets the token.
leader_waits_for_token() { ! leads || wait_for_token; }

# meaning: what its end means for the others, and why it came.
meaning() {
  why=$(cat "$GPUS_ROOT/why" 2>/dev/null)
  if leads; then why="leader${why:+ $why}"; fi
  printf %s "$why"
}

# works INDEX: the first one answers, the others run.
works() {
  why=""
  if ! leads; then
    why=$(cat "$GPUS_ROOT/ended.$1" 2>/dev/null)
  elif answers "${process_urls[$1]}"; then
    lost=""
  else
    why=${lost:-does not answer}
  fi
  [ -z "$why" ]
}

# begins INDEX, ended INDEX CODE: what lost one of its nodes may hang for ever, so all are started
# again.
begins() { rm -f "$GPUS_ROOT/ended.$1"; }

ended() {
  lost="process $1 of node-$GPUS_NODE_RANK ended with $2"
  echo "$lost" >"$GPUS_ROOT/ended.$1"
  # shellcheck disable=SC2154 # service.sh's
  sleep "$pause"
  [ -z "$by_ssh" ] || on_others "echo $lost >\"\$GPUS_ROOT/again\""
}

go_on() {
  [ -s "$GPUS_ROOT/again" ] || return 0
  lost=$(cat "$GPUS_ROOT/again")
  rm "$GPUS_ROOT/again"
  stop_all
  begin
}
