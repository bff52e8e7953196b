#!/bin/bash
# The part of start.sh that waits for the token that the engine writes into the folder by login.
: "${token_name?}" "${wait_s:?}"

wait_for_token() {
  for _ in $(seq "$wait_s"); do
    token=$(cat "$GPUS_ROOT/token" 2>/dev/null)
    [ -z "$token" ] || break
    sleep 1
  done
  if [ -z "$token" ]; then
    say setup-failed 1 no token was written there
    exit 1
  fi
  export "$token_name=$token"
}
