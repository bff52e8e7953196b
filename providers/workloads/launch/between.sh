#!/bin/bash
# By which nodes reach each other: written onto them by login, and read by start.sh once it has its
# peers. An sshd beside the machine's own, at the address that the others know, for one key pair of
# the cluster's. Who holds it is one of them, so it is their host key too. A login lands where the
# program runs, with what it finds there: in its container.
# shellcheck disable=SC2034,SC2154 # start.sh and its parts set and read the rest
: "${key:?}" "${port:?}"

open_between() {
  between="$root/between"
  mkdir -p "$between" "$root/bin"
  rm -f "$root/over" "$root/why" "$root/again" "$between/env"
  slots=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader 2>/dev/null | grep -c .)
  [ "$slots" != 0 ] || slots=1
  export GPUS_HOSTFILE="$between/hostfile"
  sed "s/\$/ slots=$slots/" "$root/peers" >"$GPUS_HOSTFILE"
  sshd=$(PATH="$PATH:/usr/sbin:/usr/local/sbin" type -P sshd)
  if [ -z "$sshd" ]; then
    echo "gpus: the nodes do not reach each other by ssh: there is no sshd here" >>"$root/log"
    return
  fi
  by_ssh=yes
  (umask 077 && printf %s "$key" >"$between/key" && ssh-keygen -y -f "$between/key") \
    >"$between/key.pub"
  write_client
  write_server
  [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
  # One that an earlier start left, where that was killed.
  before=$(cat "$between/pid" 2>/dev/null)
  for _ in 1 2 3 4 5; do
    grep -qs "$between" "/proc/${before:-none}/cmdline" || break
    kill "$before"
    sleep 1
  done
  # However this script ends, it ends too.
  bound="setpriv --pdeathsig TERM"
  command -v setpriv >/dev/null || bound=""
  # shellcheck disable=SC2086 # several words, or none
  $bound "$sshd" -D -e -f "$between/sshd_config" >>"$root/log" 2>&1 9>&- &
  sshd_pid=$!
  trap 'kill "$sshd_pid" 2>/dev/null; unmount_buckets' EXIT
}

# `ssh` for the program: what the user's own configuration says of other hosts stays.
write_client() {
  rank=0 names=""
  : >"$between/config"
  while read -r peer; do
    printf 'Host node-%s\n  HostName %s\n' "$rank" "$peer" >>"$between/config"
    names="$names node-$rank $peer"
    rank=$((rank + 1))
  done <"$root/peers"
  cat >>"$between/config" <<CONFIG
Host$names
  Port $port
  User $(id -un)
  IdentityFile $between/key
  IdentitiesOnly yes
  BatchMode yes
  HostKeyAlias gpus
  StrictHostKeyChecking yes
  UserKnownHostsFile $between/known_hosts
  GlobalKnownHostsFile /dev/null
  ConnectTimeout 10
  ServerAliveInterval 5
  ServerAliveCountMax 3
  LogLevel ERROR
Host *
  Include ~/.ssh/config
  Include /etc/ssh/ssh_config
CONFIG
  printf 'gpus %s\n' "$(cat "$between/key.pub")" >"$between/known_hosts"
  cat >"$root/bin/ssh" <<SSH
#!/bin/sh
IFS=:
for folder in \$PATH; do
  [ "\$folder" = "$root/bin" ] || [ ! -x "\$folder/ssh" ] ||
    exec "\$folder/ssh" -F "$between/config" "\$@"
done
echo "gpus: wanted an ssh client to reach the other nodes, found none on PATH" >&2
exit 127
SSH
  chmod 755 "$root/bin/ssh"
}

write_server() {
  pam=no
  # Without PAM, sshd lets nobody in whose password is locked.
  ! getent shadow "$(id -un)" | grep -q '^[^:]*:!' || pam=yes
  cat >"$between/sshd_config" <<CONFIG
ListenAddress $GPUS_ADDRESS
Port $port
HostKey $between/key
AuthorizedKeysFile $between/key.pub
AllowUsers $(id -un)
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM $pam
StrictModes no
AllowTcpForwarding no
X11Forwarding no
PidFile $between/pid
LogLevel ERROR
ForceCommand $between/enter
CONFIG
  # shellcheck disable=SC2016 # expanded where the login lands
  lead='PATH="$GPUS_ROOT/bin:$PATH"; '
  if [ -n "$image" ]; then
    lead=${fabric_line-}$lead
    line="exec $(command -v docker) exec -i gpus-${process_names[0]} $entrypoint -c"
  else
    line=". $between/env || exit; exec bash -c"
  fi
  # shellcheck disable=SC2016 # expanded where the login lands
  printf '#!/bin/bash\n%s %q"${SSH_ORIGINAL_COMMAND:-exec sh -i}"\n' "$line" "$lead" \
    >"$between/enter"
  chmod 700 "$between/enter"
}

# keep_env [NAME=VALUE...]: what a program on the machine itself finds, for logins.
keep_env() (
  umask 077
  {
    export -p
    [ $# = 0 ] || printf 'export %q\n' "$@"
    printf 'cd %q\n' "$PWD"
  } >"$between/env.new"
  mv "$between/env.new" "$between/env"
)

# on_others COMMAND: as far as they are there.
on_others() {
  for ((rank = 0; rank < nodes; rank++)); do
    [ "$rank" = "$GPUS_NODE_RANK" ] || logged "$root/bin/ssh" "node-$rank" "$1" </dev/null
  done
}

open_between
