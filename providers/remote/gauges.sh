#!/bin/sh
# Prints what the driver says of each card now, then how many Xid reports the kernel's log holds, if
# it can be read. The fields are those of `nvidia-smi --help-query-gpu`, driver 580.
: "${fields:?}" "${word:?}" "${stand_in?}"
nvidia-smi --format=csv,noheader,nounits --query-gpu="$fields"
code=$?
# On a rehearsal's stand-in the log is that of the computer that it runs on.
if [ -z "$stand_in" ] && log=$(dmesg 2>/dev/null); then
  echo "$word $(printf '%s\n' "$log" | grep -c 'NVRM: Xid')"
fi
exit "$code"
