#!/bin/sh
# Prints the machine's cards as its driver names them and, if its start-up script has ended, what
# that ended with.
: "${status:?}" "${word:?}"
status=${GPUS_START_UP:-$status}
nvidia-smi --query-gpu=name,memory.total --format=csv,noheader
code=$?
[ ! -r "$status" ] || echo "$word $(head -c 8 "$status")"
exit "$code"
