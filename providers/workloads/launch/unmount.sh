#!/bin/bash
# The part of start.sh that unmounts the buckets which this program or an earlier one had mounted.
# Who is not root unmounts by fusermount (of fuse3, or of fuse). Where a tool was killed, its path
# answers to nothing else.

unmount_buckets() {
  [ -r "$GPUS_ROOT/mounted" ] || return 0
  while read -r path; do
    ! grep -qF " $path " /proc/self/mounts || logged umount "$path" ||
      logged fusermount3 -u "$path" || logged fusermount -u "$path" || logged umount -l "$path"
  done <"$GPUS_ROOT/mounted"
  rm "$GPUS_ROOT/mounted"
}
