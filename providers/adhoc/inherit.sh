#!/bin/bash
# Gives a login the container's own variables of these names: ssh gives a session an environment of
# its own.
: "${environ:?}"
declare -a inherited
for name in "${inherited[@]}"; do
  [ -z "${!name:-}" ] || continue
  value=$(tr '\0' '\n' <"$environ" | sed -n "s/^$name=//p")
  export "$name=$value"
done
