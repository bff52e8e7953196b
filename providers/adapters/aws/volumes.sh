#!/bin/bash
# Writes down which volume is which disk, for the start-up script.
: "${volume_ids:?}"
declare -a volume_lines
mkdir -p "$(dirname "$volume_ids")" && printf '%s\n' "${volume_lines[@]}" >"$volume_ids"
