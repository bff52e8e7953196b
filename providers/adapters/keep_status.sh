#!/bin/bash
# Defines keep_status: from then on a script leaves its exit status in a file, and none while it
# runs; readiness reads it over ssh. A script that goes on after a command failed sets gpus_failed
# itself.
: "${gpus_status:?}"
keep_status() {
  mkdir -p "${gpus_status%/*}"
  rm -f "$gpus_status"
  gpus_failed=""
  trap leave_status EXIT
}
leave_status() {
  gpus_code=$?
  echo "${gpus_failed:-$gpus_code}" >"$gpus_status.new" && mv "$gpus_status.new" "$gpus_status"
}
