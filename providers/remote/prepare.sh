#!/bin/sh
# Makes a folder ready to be sent to. What was sent before is written to stdout, names with NUL
# between them; what is sent now comes on stdin, and counts as sent from here on.
: "${folder:?}" "${wait_s:?}"
umask 022
waited=0
# A machine that is only lent is used as it is.
if [ -n "${GPUS_LEASE:-}" ] && ! command -v rsync >/dev/null; then
  echo "rsync is not on that machine: install the package rsync there" >&2
  exit 127
fi
# A start-up script that has only begun installs it.
until command -v rsync >/dev/null || [ "$waited" -ge "$wait_s" ]; do
  sleep 1
  waited=$((waited + 1))
done
if ! command -v rsync >/dev/null; then
  {
    export DEBIAN_FRONTEND=noninteractive
    lock="-o DPkg::Lock::Timeout=300"
    # shellcheck disable=SC2086 # two words
    apt-get $lock update -q && apt-get $lock install -qy rsync
  } >&2 || {
    echo "rsync is not there and could not be installed; take an image that has it" >&2
    exit 127
  }
fi
mkdir -p "$folder" || exit
rm -f "$folder.digest"
if [ -e "$folder.list" ]; then cat "$folder.list"; fi
tee "$folder.list.new" >>"$folder.list"
