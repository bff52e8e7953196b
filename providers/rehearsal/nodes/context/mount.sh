#!/bin/sh
# mount, which for a disk that outlives this machine mounts the folder that it stands for.
mount=/usr/bin/mount mode=rw device="" path=""
for word in "$@"; do
  case "$word" in ro | ro,*) mode=ro ;; esac
  device=$path path=$word
done
case "$device" in
  /var/lib/rehearsal-disks/*/disk) ;;
  *) exec "$mount" "$@" ;;
esac
if ! blkid -p "$device" >/dev/null; then
  echo "mount: $path: wrong fs type, bad option, bad superblock on $device" >&2
  exit 32
fi
"$mount" --bind "${device%disk}data" "$path"
[ "$mode" = rw ] || "$mount" -o remount,bind,ro "$path"
