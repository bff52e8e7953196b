#!/bin/bash
# The part of start.sh that unmounts the buckets which this program or an earlier one had mounted.
# Where a tool was killed, its path answers to nothing else.

unmount_buckets() {
  [ -r "$GPUS_ROOT/mounted" ] || return 0
  while read -r path; do
    ! grep -qF " $path " /proc/self/mounts || logged umount "$path" || logged umount -l "$path"
  done <"$GPUS_ROOT/mounted"
  rm "$GPUS_ROOT/mounted"
}
