#!/bin/bash
# How the first boot of an EC2 machine begins: its exit status is kept, a failed command ends
# nothing, and the user can log in with the keys.
: "${user:?}"
declare -a keys
set -u
keep_status
trap 'gpus_failed=$?' ERR
if [ "${#keys[@]}" != 0 ]; then
  id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$user"
  home=$(getent passwd "$user" | cut -d: -f6)
  install -d -m 700 -o "$user" -g "$(id -gn "$user")" "$home/.ssh"
  printf '%s\n' "${keys[@]}" >>"$home/.ssh/authorized_keys"
  chown "$user:$(id -gn "$user")" "$home/.ssh/authorized_keys"
  chmod 600 "$home/.ssh/authorized_keys"
  printf '%s ALL=(ALL) NOPASSWD:ALL\n' "$user" >/etc/sudoers.d/90-gpus
  chmod 440 /etc/sudoers.d/90-gpus
fi
