#!/bin/sh
# Answers one request to the metadata service, from the files of this machine.
read -r _ path _
while read -r line; do [ "${line%?}" != "" ] || break; done
file=/etc/rehearsal/metadata$path
case "$path" in *..*) file=/nowhere ;; esac
if [ -f "$file" ]; then
  printf 'HTTP/1.0 200 OK\r\nContent-Length: %s\r\n\r\n' "$(wc -c <"$file")"
  cat "$file"
else
  printf 'HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n'
fi
