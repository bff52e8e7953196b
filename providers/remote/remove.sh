#!/bin/sh
# Removes what was sent and is no longer in the folder: names on stdin, with NUL between them.
: "${folder:?}"
cd "$folder" || exit
# shellcheck disable=SC2016 # expanded by the inner shell
xargs -0 sh -c 'for name; do
  rm -f -- "$name"
  case "$name" in
    */*) rmdir -p -- "${name%/*}" 2>/dev/null ;;
  esac
done
exit 0' -
