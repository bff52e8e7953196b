#!/bin/sh
# Carries its own input and output to a port of the sandbox ($1), with what the image has.
: "${relay:?}"
for python in python3 python; do
  command -v "$python" >/dev/null && exec "$python" -c "$relay" "$1"
done
command -v socat >/dev/null && exec socat - "TCP:localhost:$1"
command -v nc >/dev/null && exec nc localhost "$1"
echo "wanted python3, socat or nc in the sandbox's image, which carry a port, found none" >&2
exit 127
