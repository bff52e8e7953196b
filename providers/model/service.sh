#!/bin/bash
# Puts a program in place and has systemd run it, now and at every boot.
: "${service:?}" "${unit:?}" "${path:?}" "${mode:?}" "${content:?}" "${at_once?}"
mkdir -p "${path%/*}"
printf '%s\n' "$content" >"$path"
chmod "$mode" "$path"
printf '%s\n' "$unit" >"/etc/systemd/system/$service.service"
systemctl daemon-reload
if [ -n "$at_once" ]; then
  systemctl enable --now "$service.service"
else
  systemctl enable --now --no-block "$service.service"
fi
