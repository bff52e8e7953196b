#!/bin/sh
# Stands before every command that comes to a machine: writes down what came, what is lent after it,
# and holds the first one of a kind before it is carried out or before it is answered.
# $1: the machine's folder.
here=$1 words=$SSH_ORIGINAL_COMMAND
case "$words" in
  *" gpus-"[a-z]*) verb=${words##* gpus-} ;;
  *rsync*) verb=rsync ;;
  *) verb="command" ;;
esac

# hold WHEN: a test asks for it by a file, learns by another that it came, and removes that.
hold() {
  mv "$here/hold-$verb-$1" "$here/came-$verb-$1" 2>/dev/null || return
  while [ -e "$here/came-$verb-$1" ]; do sleep 0.05; done
}

tell() {
  line="$(date +%s.%N) $verb"
  for lease in "$GPUS_AGENT_ROOT"/leases/*/lease; do
    [ ! -e "$lease" ] || {
      token=${lease%/lease}
      line="$line $(sed -n 's/^cluster=//p' "$lease")/${token##*/}"
    }
  done
  echo "$line" >>"$here/seen"
}

if [ "$verb" = rsync ] || [ "$verb" = command ]; then
  hold before
  sh -c "$words"
  code=$?
  tell
  hold after
  exit "$code"
fi
# It greets, and is sent only then what it is to do.
{
  text=$(cat)
  hold before
  printf '%s\n' "$text"
} | sh -c "$words" | {
  IFS= read -r greeting
  echo "$greeting"
  answer=$(cat; echo .)
  tell
  hold after
  printf %s "${answer%.}"
}
