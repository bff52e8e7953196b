#!/bin/sh
# What a rehearsal's stand-in has for an nvidia-smi: it reports what was ordered, and says that
# nothing of it is there.
: "${label:?}" "${name:?}" "${mib:?}" "${count:?}" "${busy_file:?}" "${answers?}" "${no_driver:?}"
if [ -z "$answers" ]; then
  echo "$label: the driver does not answer" >&2
  exit "$no_driver"
fi
each() { # command: once for each GPU, with its number
  for index in $(seq 0 $((count - 1))); do "$@" "$index"; done
}
named() { echo "$name, $mib MiB"; }
used() { echo "$1, $name, 0, $mib"; }
busy() { cat "$busy_file" || exit "$no_driver"; }
gauges() { echo "$1, $(busy), 0, $mib, [N/A], [N/A], [N/A], [N/A], $name"; }
case "$*" in
  *--query-gpu=name,memory.total*) each named ;;
  *--query-gpu=index,name,memory.used,memory.total*) each used ;;
  *--query-gpu=index,utilization.gpu,*) each gauges ;;
  *--query-gpu=utilization.gpu*) each busy ;;
  *) echo "$label: there is no GPU here; it stands for $count x $name" ;;
esac
