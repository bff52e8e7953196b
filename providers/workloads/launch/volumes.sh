#!/bin/bash
# The part of start.sh that mounts volumes: disks that outlive this machine. One is formatted only
# where it is blank: no signature that blkid knows, and nothing but zeros in its first MiB.
#
# /dev/disk/by-id/google-NAME is Google's link to a disk (Google, "Symlinks for disks", 2026-11). An
# EBS volume's serial number is its id without the hyphen (Amazon, "Map NVMe devices", 2026-11);
# which id is which volume stands in the file, one `NAME ID` a line.
: "${volume_ids:?}" "${volume_wait:?}"
declare -a volume_names volume_paths volume_modes

# device_of NAME
device_of() {
  if [ -e "/dev/disk/by-id/google-gpus-$1" ]; then
    readlink -f "/dev/disk/by-id/google-gpus-$1"
    return
  fi
  id=$(awk -v name="$1" '$1 == name { print $2 }' "$volume_ids" 2>/dev/null)
  [ -n "$id" ] || return 1
  found=$(lsblk -dnro NAME,SERIAL | awk -v id="${id//-/}" '$2 == id { print "/dev/" $1 }')
  [ -e "$found" ] && readlink -f "$found"
}

is_blank() {
  blkid -p "$1" >/dev/null 2>&1
  [ $? = 2 ] && cmp -s -n 1048576 "$1" /dev/zero
}

# mount_volume NAME PATH MODE DEVICE
mount_volume() {
  if [ "$3" = ro ]; then
    logged mount -o ro,noload "$4" "$2" || logged mount -o ro "$4" "$2"
    return
  fi
  if is_blank "$4"; then
    logged mkfs.ext4 -q -m 0 "$4" && logged mount "$4" "$2" && chmod 1777 "$2"
    return
  fi
  logged mount "$4" "$2" && grow_file_system "$4"
}

# A volume grows while it is mounted; its file system follows.
grow_file_system() {
  [ "$(blkid -p -s TYPE -o value "$1")" != ext4 ] || logged resize2fs "$1"
}

follow_growth() {
  declare -A sizes
  while kill -0 $$ 2>/dev/null; do
    for device in "$@"; do
      size=$(blockdev --getsize64 "$device" 2>/dev/null)
      [ "${sizes[$device]-$size}" = "$size" ] || grow_file_system "$device"
      sizes[$device]=$size
    done
    sleep 20
  done
}

mount_volumes() {
  devices=()
  for index in "${!volume_names[@]}"; do
    name=${volume_names[index]} path=${volume_paths[index]} mode=${volume_modes[index]}
    # A container sees what stands in these.
    mount_paths+=("$path") mount_modes+=("$mode")
    if mountpoint -q "$path"; then
      devices+=("$(findmnt -nro SOURCE "$path")")
      continue
    fi
    until=$((SECONDS + volume_wait))
    until device=$(device_of "$name"); do
      if [ "$SECONDS" -ge "$until" ]; then
        say setup-failed 1 "the volume $name did not come to this machine"
        exit 1
      fi
      sleep 2
    done
    mkdir -p "$path"
    if ! mount_volume "$name" "$path" "$mode" "$device"; then
      say setup-wrong 1 "the volume $name could not be mounted at $path: what is on it is no file" \
        "system, or is broken; it was left as it is; see the log"
      exit 1
    fi
    devices+=("$device")
  done
  [ "${#devices[@]}" = 0 ] || follow_growth "${devices[@]}" 9>&- &
}
