#!/bin/bash
# Powers the machine off once none of its GPUs was busy for so many seconds. A driver that does not
# answer is never idleness.
: "${gpus_idle_s:?}" "${busy_percent:?}" "${every_s:?}"
quiet=$(cut -d. -f1 /proc/uptime)
while sleep "$every_s"; do
  now=$(cut -d. -f1 /proc/uptime)
  most=$(nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits 2>/dev/null |
    sort -n | tail -n 1)
  case "$most" in
    '' | *[!0-9]*)
      quiet=$now
      continue
      ;;
  esac
  if [ "$most" -ge "$busy_percent" ]; then quiet=$now; fi
  if [ $((now - quiet)) -ge "$gpus_idle_s" ]; then exec systemctl poweroff; fi
done
