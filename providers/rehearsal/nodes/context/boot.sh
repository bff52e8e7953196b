#!/bin/bash
# What a cloud's agent does on a machine: addresses, users with their keys, the start-up script.
set -u
folder=/etc/rehearsal

# The machine's own address, and the way to the others': all are in one network.
addresses() {
  address=$(cat "$folder/addresses")
  [ -z "$address" ] || ip address add "$address/32" dev eth0
  for range in 10.0.0.0/8 172.16.0.0/12; do ip route add "$range" dev eth0; done
  ip address add 169.254.169.254/32 dev lo
}

# Those of the file, and no others.
keys() {
  cut -d: -f1 "$folder/keys" | sort -u | while read -r user; do
    id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$user"
    home=$(getent passwd "$user" | cut -d: -f6)
    install -d -m 700 -o "$user" -g "$user" "$home/.ssh"
    grep "^$user:" "$folder/keys" | cut -d: -f2- >"$home/.ssh/authorized_keys"
    chown "$user:$user" "$home/.ssh/authorized_keys"
    chmod 600 "$home/.ssh/authorized_keys"
    echo "$user ALL=(ALL) NOPASSWD:ALL" >"/etc/sudoers.d/90-$user"
  done
}

# The disks that outlive this machine: each is a file, beside the folder that it stands for.
disks() {
  mkdir -p /dev/disk/by-id
  find /dev/disk/by-id -lname '/var/lib/rehearsal-disks/*' -delete
  while read -r key link _; do
    there=/var/lib/rehearsal-disks/$key
    mkdir -p "$there/data"
    [ -e "$there/disk" ] || truncate -s 1M "$there/disk"
    ln -s "$there/disk" "/dev/disk/by-id/$link"
  done <"$folder/disks"
}

start_up() {
  done=/var/lib/rehearsal-started
  [ -s "$folder/start-up" ] || return 0
  if [ ! -s "$folder/always" ] && [ -e "$done" ]; then return 0; fi
  touch "$done"
  exec bash "$folder/start-up"
}

case "$1" in
  prepare)
    : >"$folder/ended"
    addresses
    ssh-keygen -q -A
    keys
    disks
    ;;
  told)
    keys
    disks
    ;;
  start-up) start_up ;;
esac
