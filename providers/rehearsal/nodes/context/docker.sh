#!/bin/sh
# Docker as this machine has it. Nothing is pulled: for an image that is not here, one is made whose
# programs do nothing but say so, or serve a health check.
docker=/usr/bin/docker

# The image among the words of `docker run`.
image_of() {
  shift
  while [ $# -gt 0 ]; do
    case "$1" in
      --*=* | --rm | --init | --detach | --tty | --interactive | --privileged | -d | -i | -t | -it)
        shift
        ;;
      -*) shift 2 || return ;;
      *)
        printf %s "$1"
        return
        ;;
    esac
  done
}

# Who looks whether an image is here would sign in to its registry if it were not.
image=""
case "${1:-} ${2:-}" in
  "run "*) image=$(image_of "$@") ;;
  "image inspect") image=${3:-} ;;
esac
if [ -n "$image" ]; then
  "$docker" image inspect "$image" >/dev/null 2>&1 || /usr/lib/rehearsal/make_image.sh "$image" >&2
fi
exec "$docker" "$@"
