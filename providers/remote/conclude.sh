#!/bin/sh
# Says that all of a folder has arrived.
: "${folder:?}" "${digest:?}"
mv "$folder.list.new" "$folder.list" || exit
echo "$digest" >"$folder.digest.new" && mv "$folder.digest.new" "$folder.digest"
