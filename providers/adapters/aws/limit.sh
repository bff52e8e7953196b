#!/bin/bash
# Sets the end of the machine's run, at each boot. The end is a time that is written down, with the
# start that it counts from.
: "${ttl_s:?}" "${on_ttl:?}" "${limit:?}" "${metadata:?}" "${start_line:?}"
get() { curl --noproxy '*' -sf -m 5 --retry 10 --retry-delay 3 --retry-connrefused "$@"; }
token=$(get -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$metadata/api/token")
start=$(get -H "X-aws-ec2-metadata-token: $token" "$metadata/user-data" |
  sed -n "/^$start_line/{s///p;q}")
was="" end=""
[ ! -e "$limit" ] || read -r was end <"$limit"
now=$(date +%s)
# Without an answer of the metadata service, an end that has passed is set anew: a disk is not lost
# for that.
again=""
if [ -z "$end" ]; then
  again=1
elif [ -n "$start" ]; then
  [ "$start" = "$was" ] || again=1
elif [ "$end" -le "$now" ]; then
  again=1
fi
if [ -n "$again" ]; then
  end=$((now + ttl_s))
  echo "${start:-none} $end" >"$limit"
fi
left=$((end - now))
if [ "$left" -le 0 ]; then
  # Nobody started it through us: it is kept, or ends at once.
  [ "$on_ttl" != keep ] || exit 0
  left=1
fi
systemd-run --unit=gpus-ttl --on-active="$left" --timer-property=AccuracySec=1s \
  /bin/systemctl poweroff || shutdown -P "+$((left / 60))"
