#!/bin/sh
# One answer of a server that stands for a model's: its health to everybody, the rest to who has the
# token.
read -r _ path _
given=""
while read -r line; do
  line=${line%?}
  [ -n "$line" ] || break
  case "$line" in
    [Aa]uthorization:\ Bearer\ *) given=${line#*Bearer } ;;
  esac
done
token=${GPUS_STAND_IN_TOKEN:-}
status="200 OK" body='{"status":"ok"}'
case "$path" in
  /health | /api/version) ;;
  *)
    if [ -n "$token" ] && [ "$given" != "$token" ]; then
      status="401 Unauthorized" body='{"error":"Unauthorized"}'
    else
      model=$GPUS_STAND_IN_MODEL
      it="\"id\":\"$model\",\"object\":\"model\",\"owned_by\":\"rehearsal stand-in\""
      body="{\"object\":\"list\",\"data\":[{$it}]}"
    fi
    ;;
esac
printf 'HTTP/1.0 %s\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' \
  "$status" "${#body}" "$body"
