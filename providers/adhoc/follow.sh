#!/bin/sh
# Shows the start-up script's log until it says one of the states of $ends, and ends with the code
# that it says with it.
: "${digest:?}" "${folder:?}" "${ends:?}" "${well:?}" "${ill:?}" "${begin_s:?}" "${first_line:?}"
root="${GPUS_ROOT:-$folder}"
theirs="" state="" code=""
one_of() { case " $2 " in *" $1 "*) ;; *) return 1 ;; esac; }
waited=0
until [ -e "$root/log" ]; do
  waited=$((waited + 1))
  if [ "$waited" -gt "$begin_s" ]; then
    echo "gpus: the start-up script has written nothing to $root/log in $begin_s s" >&2
    exit 1
  fi
  sleep 1
done
tail -n "$first_line" -F "$root/log" 2>/dev/null &
tail=$!
trap 'kill "$tail" 2>/dev/null' EXIT
trap 'exit 143' HUP INT TERM PIPE
while kill -0 "$tail" 2>/dev/null; do
  [ ! -r "$root/status" ] || read -r _ theirs state code _ <"$root/status"
  if [ "$theirs" = "$digest" ] && one_of "$state" "$ends"; then break; fi
  sleep 0.5
done
sleep 1
if one_of "$state" "$well"; then exit 0; fi
if one_of "$state" "$ill"; then exit "${code:-1}"; fi
exit 1
