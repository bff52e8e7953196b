#!/bin/sh
# What a machine of yours does when it is asked: tells its cards and leases, lends cards, starts
# what is to run on them, and takes them back. Sent whole with each call. Nothing happens before its
# last line is read, so half of it does nothing. A lease is a folder on the machine itself, made and
# removed under one lock: whoever asks, no card is lent twice.
: "${verb:?}" "${token?}" "${lease?}" "${count?}" "${cards?}" "${ttl?}" "${script?}"
: "${held?}" "${held_s:?}" "${secrets?}" "${changes?}"
: "${work:?}" "${boot_script:?}" "${log_bytes:?}" "${grace:?}" "${folders?}"

set -u
umask 022
root=${GPUS_AGENT_ROOT:-/var/tmp/gpus}
leases=$root/leases logs=$root/logs trash=$root/trash mounts=$root/mounts
next='
'
boot=${GPUS_BOOT_ID:-$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)}
verb=${GPUS_VERB:-$verb}
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/lib/wsl/lib

# finish CODE: the last line of an answer; without it an answer is none.
finish() {
  echo "end $1"
  exit 0
}

now() { echo "${GPUS_NOW:-$(date +%s)}"; }

# A stand-in's time is played, and nothing runs there.
played() { [ -n "${GPUS_NOW:-}" ]; }

value() { sed -n "s/^$2=//p" "$leases/$1/lease" 2>/dev/null; }

all_leases() { ls "$leases" 2>/dev/null; }

# The machine was started anew since: what the lease ran is no more.
is_lost() { [ "$(value "$1" boot)" != "$boot" ]; }

is_over() {
  over_at=$(value "$1" end)
  [ "${over_at:-0}" != 0 ] && [ "$(now)" -ge "$over_at" ]
}

state() {
  if [ -n "$(value "$1" ending)" ] || is_over "$1"; then
    echo stopping
  elif is_lost "$1"; then
    echo lost
  elif [ -n "$(value "$1" held)" ]; then
    echo held
  elif [ "$(now)" -lt "$(cat "$leases/$1/begun" 2>/dev/null || echo 9999999999)" ]; then
    echo starting
  else
    echo running
  fi
}

# Everything started under a lease has its folder in its environment, whatever session it went to.
# Not its token: of one order's leases, several may run on one host, as in containers.
processes() {
  grep -lsF -e "GPUS_$2=$leases/$1/own" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3
}

# within SECONDS COMMAND...: what hangs, as a driver or Docker may, holds up nobody else's lease.
within() { timeout -k 5 "$@" 2>/dev/null; }

# cleared LEASE: whether it is over and no container or image of it is left. A Docker that does not
# tell is no answer.
cleared() {
  [ -e "$leases/$1/own/containers" ] || return 0
  is_over "$1" && [ -z "$(processes "$1" LEASE_FOLDER)" ] || return
  found=$(within 10 docker ps -aq --filter "label=gpus.lease=$1") || return
  remove="rm -f"
  if [ -z "$found" ]; then
    # What setup lines made of an image has the label of its container.
    found=$(within 10 docker images -q --filter "label=gpus.lease=$1") || return
    remove="rmi -f"
  fi
  [ -n "$found" ] || return 0
  # shellcheck disable=SC2086 # one word a container, or an image
  within 60 docker $remove $found >/dev/null
  return 1
}

# edit LEASE NAME=VALUE...: writes it anew, whole.
edit() {
  edited=$leases/$1/lease
  shift
  cp "$edited" "$edited.new" || finish no-space
  for pair in "$@"; do
    { grep -v "^${pair%%=*}=" "$edited.new"; echo "$pair"; } >"$edited.newer" || finish no-space
    mv "$edited.newer" "$edited.new"
  done
  mv "$edited.new" "$edited"
}

# free LEASE: no card is lent by it from here on, and only its log is left.
free() {
  why=$(value "$1" ending)
  [ ! -f "$leases/$1/own$work/log" ] || cp "$leases/$1/own$work/log" "$logs/$1.log" 2>/dev/null
  printf '\ngpus-lease %s %s\n' "$1" "${why:-ended}" >>"$logs/$1.log"
  discard "$1"
}

# unmount LEASE: what a tool that was killed has left mounted. Of its places only empty folders are
# removed, and nothing below a mount.
unmount() {
  if [ -r "$leases/$1/own$work/mounted" ]; then
    while read -r at; do
      ! grep -qF " $at " /proc/self/mounts || within 10 umount -l "$at" ||
        within 10 fusermount3 -uz "$at" || within 10 fusermount -uz "$at"
    done <"$leases/$1/own$work/mounted"
  fi
  [ ! -d "$mounts/$1" ] ||
    find "$mounts/$1" -xdev -depth -type d -exec rmdir {} \; 2>/dev/null
}

# discard LEASE: as if it had never been.
discard() {
  unmount "$1"
  mv "$leases/$1" "$trash/$1"
  # A container may have left files of root's.
  rm -rf "${trash:?}/$1" 2>/dev/null
  # Whoever does this may be a keeper, and ends by itself.
  for pid in $(processes "$1" KEEPER); do [ "$pid" = $$ ] || kill "$pid" 2>/dev/null; done
}

# advance LEASE: one step on the way out of one whose time is over. Never waits.
advance() {
  is_over "$1" && [ -w "$leases/$1" ] || return 0
  if ! is_lost "$1"; then
    pids=$(processes "$1" LEASE_FOLDER)
    if [ -n "$pids" ]; then
      since=$(cat "$leases/$1/asked" 2>/dev/null)
      signal=
      if [ -z "$since" ]; then
        now >"$leases/$1/asked"
        signal=TERM
      elif [ "$(now)" -ge $((since + grace)) ]; then
        signal=KILL
      fi
      # shellcheck disable=SC2086 # one word a process
      [ -z "$signal" ] || kill "-$signal" $pids 2>/dev/null
      return 0
    fi
    # Its keeper alone asks Docker, and not under the lock.
    [ ! -e "$leases/$1/own/containers" ] || [ "${clear:-}" = "$1" ] || return 0
  fi
  free "$1"
}

tell_leases() {
  echo "boot $boot"
  for each in $(all_leases); do
    echo "lease $each $(state "$each")"
    sed 's/^/ /' "$leases/$each/lease"
  done
  [ -z "$token" ] || [ -d "$leases/$token" ] || [ ! -f "$logs/$token.log" ] ||
    echo "over $token $(sed -n "s/^gpus-lease $token //p" "$logs/$token.log" | tail -n 1)"
}

# Cards and Docker at once: either may take seconds. Docker's is the first line.
ask_facts() {
  command -v nvidia-smi >/dev/null || finish no-smi
  told=$(
    echo "docker:$(ask_docker)" &
    if found=$(all_cards) && apps=$(running_apps); then
      wait
      printf '%s\n' "$found" apps "$apps" end
    fi
  )
  [ "${told%"${next}end"}" != "$told" ] || finish no-driver
  told=${told%"${next}end"}
  docker=${told%%"$next"*} told=${told#*"$next"}
  docker=${docker#docker:} found=${told%%"${next}apps$next"*} apps=${told##*"${next}apps$next"}
}

all_cards() {
  within 30 nvidia-smi --query-gpu=index,uuid,memory.total,driver_version,name \
    --format=csv,noheader,nounits
}

# On which cards somebody runs something. A driver that does not tell is not a free card.
ask_use() { apps=$(running_apps) || finish no-driver; }

running_apps() { within 30 nvidia-smi --query-compute-apps=gpu_uuid --format=csv,noheader; }

# What whoever logs in may use there; a stand-in has all of it.
tell_tools() {
  echo "user $(id -un 2>/dev/null || id -u)"
  for tool in mount-s3 rsync; do
    ! { played || command -v "$tool" >/dev/null; } || echo "tool $tool"
  done
  ! { played || [ -n "$docker" ]; } || echo "tool docker"
  ! { played || [ "$(id -u)" = 0 ] || grep -qs '^ *user_allow_other' /etc/fuse.conf; } ||
    echo "tool allow-other"
}

# The folders where whoever logs in can mount nothing, and why. A stand-in has them all.
tell_folders() {
  ! played || return 0
  echo "$folders" | while read -r folder; do
    near=$folder
    until [ -e "$near" ] || [ -z "$near" ]; do near=${near%/*}; done
    near=${near:-/} why=''
    if grep -qF " $folder " /proc/self/mounts; then
      why="something is mounted there already"
    elif [ ! -d "$near" ]; then
      why="$near is no folder"
    elif [ ! -w "$near" ] || [ ! -x "$near" ]; then
      why="$near is not writable"
    elif [ "$near" = "$folder" ] && [ "$(id -u)" != 0 ] &&
      [ -n "$(find "$near" -prune -perm -1000 ! -user "$(id -u)")" ]; then
      why="it is another user's"
    fi
    [ -z "$folder" ] || [ -z "$why" ] || echo "unfit $folder $why"
  done
}

ask_docker() {
  played || ! command -v docker >/dev/null || within 10 docker version -f '{{.Server.Version}}'
}

tell_cards() {
  echo "$found" | sed 's/^/card /'
  in_use | sed 's/^/used /'
}

# Of those cards, the ones without a lease.
in_use() {
  echo "$apps" | sort -u |
    while read -r used; do [ -z "$used" ] || lent | grep -qxF "$used" || echo "$used"; done
}

lent() {
  for each in $(all_leases); do
    is_lost "$each" || value "$each" cards | tr ' ' '\n'
  done
}

take() {
  if [ -d "$leases/$token" ]; then
    # Another node's: this machine is in the inventory twice, by two names.
    [ "$(value "$token" rank)" = "$(echo "$lease" | sed -n 's/^rank=//p')" ] || finish taken
    tell_leases
    finish ok
  fi
  # Delivered once more after all was over: it is not begun again.
  [ ! -e "$logs/$token.log" ] || finish over
  command -v nvidia-smi >/dev/null || finish no-smi
  for tool in setsid bash; do command -v "$tool" >/dev/null || finish no-tool; done
  ask_use
  not_free=$(lent; in_use)
  chosen='' number=0
  for card in $cards; do
    [ "$number" -lt "$count" ] || break
    if ! echo "$not_free" | grep -qxF "$card"; then
      chosen="$chosen${chosen:+ }$card" number=$((number + 1))
    fi
  done
  [ "$number" = "$count" ] || finish taken
  made=$leases/.$token.new
  rm -rf "$made"
  furnish || { rm -rf "$made"; finish no-space; }
  mv "$made" "$leases/$token" || finish no-space
  if played; then
    echo $(($(now) + ${GPUS_BEGINS_S:-0})) >"$leases/$token/begun"
  else
    detached keep "$token"
    [ -n "$held" ] || begin
  fi
  tell_leases
  finish ok
}

begin() {
  if [ -s "$leases/$token/own$boot_script" ]; then
    detached job "$token"
  else
    now >"$leases/$token/begun"
  fi
  for pause in .02 .03 .05 .1 .1 .1 .1 .1 .1 .1 .1; do
    [ ! -e "$leases/$token/begun" ] || break
    sleep "$pause" 2>/dev/null || sleep 1
  done
}

# Begins what a lease was held for, once; its time counts from when the cards were taken.
start() {
  case "$(state "$token")" in
    held) ;;
    starting | running) return ;;
    *) finish over ;;
  esac
  end=0
  [ "$ttl" = 0 ] || end=$(($(value "$token" created) + ttl))
  edit "$token" held= "end=$end"
  played || begin
}

# Writes a lease's folder: what everybody may read, and `own`, which only its user may.
furnish() {
  own=$made/own there=$leases/$token/own
  mkdir -p "$own/bin" "$own/home" "$own$work" && chmod 700 "$own" || return
  end=0
  # Held for others that are not had yet, and whoever holds it may be gone.
  [ -z "$held" ] || ttl=$held_s
  [ "$ttl" = 0 ] || end=$(($(now) + ttl))
  printf '%s\n' "$lease" "cards=$chosen" "boot=$boot" "created=$(now)" "end=$end" "held=$held" \
    >"$made/lease" || return
  listed=$(echo "$chosen" | tr ' ' ,)
  cat >"$own/env" <<ENV || return
export GPUS_LEASE=$token GPUS_LEASE_FOLDER=$there
export GPUS_ROOT=$there$work GPUS_CONSOLE=/dev/null GPUS_START_UP=$there/start-up
export GPUS_SECRETS=$there/secrets
export GPUS_NODE_RANK=$(echo "$lease" | sed -n 's/^rank=//p')
export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=$listed NVIDIA_VISIBLE_DEVICES=$listed
export HOME=$there/home PATH=$there/bin:\$PATH
cd $there/home
ENV
  # What looks at the machine's cards sees those of the lease.
  cat >"$own/bin/nvidia-smi" <<SMI || return
#!/bin/sh
case " \$* " in
  *" --query-gpu"* | "  ") exec $(command -v nvidia-smi) -i $listed "\$@" ;;
  *) exec $(command -v nvidia-smi) "\$@" ;;
esac
SMI
  # Of all cards, a container gets those too; and it is known as the lease's. The inner quotes are
  # Docker's own: without them a comma ends the value.
  ! command -v docker >/dev/null || cat >"$own/bin/docker" <<DOCKER || return
#!/bin/bash
[ "\$1" = run ] || [ "\$1" = create ] || exec $(command -v docker) "\$@"
>$there/containers
words=("\$1" --label gpus.lease=$token) before=\$1
for word in "\${@:2}"; do
  [ "\$before \$word" != "--gpus all" ] || word='"device=$listed"'
  words+=("\$word") before=\$word
done
exec $(command -v docker) "\${words[@]}"
DOCKER
  chmod 700 "$own/bin/"* || return
  (
    umask 077
    # shellcheck disable=SC2154 # this program's own text, read by whoever sent it
    printf '%s\n' "$agent" >"$own/agent" && printf %s "$script" >"$own$boot_script" &&
      printf %s "$secrets" >"$own/secrets"
  )
}

# detached VERB LEASE: a lease's program once more, in a session of its own that outlives the login.
detached() {
  scope=''
  if [ "$(id -u)" = 0 ] && [ -d /run/systemd/system ] &&
    systemd-run --scope --quiet true </dev/null >/dev/null 2>&1; then
    scope='systemd-run --scope --quiet --collect'
  fi
  mark=''
  [ "$1" != keep ] || mark="GPUS_KEEPER=$leases/$2/own"
  # shellcheck disable=SC2086 # several words
  env $mark GPUS_VERB="$1" setsid $scope sh "$leases/$2/own/agent" \
    </dev/null >/dev/null 2>&1 9<&- &
}

# kept LEASE: the keeper of one's own lease is started anew where something has ended it.
kept() {
  owner=$(stat -c %u "$leases/$1/own/agent" 2>/dev/null)
  [ "$owner" != "$(id -u)" ] || [ -n "$(processes "$1" KEEPER)" ] || detached keep "$1"
}

# Ends the lease in time, though nobody asks; a file that is touched is not tidied away meanwhile.
keep() {
  while [ -d "$leases/$token" ]; do
    clear=''
    ! cleared "$token" || clear=$token
    if flock -w 10 9; then
      advance "$token"
      flock -u 9
    fi
    [ -d "$leases/$token" ] || return
    touch "$leases/$token/lease" "$leases/$token/own/env" 2>/dev/null
    pause=30
    at=$(value "$token" end)
    if [ "${at:-0}" != 0 ]; then
      left=$((at - $(now)))
      [ "$left" -ge "$pause" ] || pause=$((left > 1 ? left : 1))
    fi
    sleep "$pause"
  done
}

# release WHY: `released` by whoever asked, or `done` by what ran there.
release() {
  if [ -d "$leases/$token" ]; then
    [ -n "$(value "$token" ending)" ] ||
      edit "$token" "ending=$1" "end=$(($(now) + ${GPUS_DELETE_S:-0}))"
    # The one that is there may sleep a while yet. Before anything is ended: this may be what ends.
    played || detached keep "$token"
    advance "$token"
    [ "$1" = "done" ] || played || ended_soon
  fi
  tell_leases
  finish ok
}

# Waits a little for what was told to end, and not under the lock: who asks would only ask again.
ended_soon() {
  for pause in .05 .1 .15 .2 .3; do
    [ -d "$leases/$token" ] || return
    flock -u 9
    sleep "$pause" 2>/dev/null || sleep 1
    flock -w 15 9 || finish busy
    # Its keeper may have done it meanwhile.
    [ ! -d "$leases/$token" ] || advance "$token"
  done
}

tell_log() {
  echo "log"
  tail -c "$log_bytes" "$leases/$token/own$work/log" 2>/dev/null ||
    tail -c "$log_bytes" "$logs/$token.log" 2>/dev/null
  echo
}

main() {
  if [ "$verb" = job ]; then
    # shellcheck source=/dev/null
    . "$leases/$token/own/env" && unset GPUS_VERB &&
      { now >"$leases/$token/begun"; exec bash "$leases/$token/own$boot_script"; }
    exit 1
  fi
  for tool in flock timeout; do command -v "$tool" >/dev/null || finish no-tool; done
  # Another one may make them at the same time.
  for place in "$root" "$leases" "$logs" "$trash" "$mounts"; do
    [ -d "$place" ] || { mkdir -p "$place" && { chmod 1777 "$place" || [ -w "$place" ]; }; } \
      2>/dev/null || finish no-right
  done
  exec 9<"$root" || finish no-right
  [ "$verb" != keep ] || { keep; exit 0; }
  # Not under the lock: a driver may be slow, and so may be who reads a log.
  found='' apps=''
  [ "$verb" != facts ] || ask_facts
  [ "$verb" != log ] || { tell_log; finish ok; }
  # Who asks from elsewhere asks again; what ends its own lease would not.
  patience=15
  [ "$verb" != "done" ] || patience=600
  flock -w "$patience" 9 || finish busy
  for each_one in $(all_leases); do
    advance "$each_one"
    # What runs in a lease has that lease's variables.
    played || [ "$verb" = "done" ] || kept "$each_one"
  done
  case "$verb" in
    facts)
      tell_cards
      tell_tools
      tell_folders
      tell_leases
      ;;
    look) tell_leases ;;
    take) take ;;
    edit)
      [ -d "$leases/$token" ] || finish over
      IFS=$next
      # shellcheck disable=SC2086 # one word a line
      edit "$token" $changes
      tell_leases
      ;;
    start)
      [ -d "$leases/$token" ] || finish over
      start
      tell_leases
      ;;
    drop)
      [ -z "$(value "$token" held)" ] || discard "$token"
      [ ! -d "$leases/$token" ] || finish taken
      ;;
    release) release released ;;
    done) release "done" ;;
    *) finish no-verb ;;
  esac
  finish ok
}

main </dev/null
