#!/bin/bash
# The part of start.sh, after container.sh, that runs the setup lines inside the image. What they
# change there is kept as an image of this machine, from which every container of this program
# comes.
: "${image:?}" "${entrypoint:?}" "${digest:?}" "${setup?}"

set_up_image() {
  name=gpus-setup${GPUS_LEASE:+-$GPUS_LEASE}
  if ! docker image inspect "$name:$digest" >/dev/null 2>&1; then
    printf %s "$setup" >"$GPUS_ROOT/setup.sh"
    containers+=("$name")
    code=0
    # shellcheck disable=SC2016 # expanded by the image's shell
    if in_idle_container "$name"; then
      logged docker exec ${caches[@]+"${caches[@]}"} --env-file "$GPUS_ROOT/container.env" "$name" \
        "$entrypoint" -c '! command -v bash >/dev/null || exec bash -euo pipefail "$0"
          exec sh -eu "$0"' "$GPUS_ROOT/setup.sh" || code=$?
      if [ "$code" != 0 ]; then
        docker rm -f "$name" >/dev/null 2>&1
        say setup-wrong "$code" the setup lines, see the log
        exit 1
      fi
    fi
    if ! logged docker commit "$name" "$name:$digest"; then
      say setup-failed 1 "what setup changed in the image $image could not be kept, see the log"
      exit 1
    fi
    docker rm -f "$name" >/dev/null 2>&1
    for tag in $(docker images --format '{{.Tag}}' "$name"); do
      [ "$tag" = "$digest" ] || docker rmi "$name:$tag" >/dev/null 2>&1
    done
  fi
  image=$name:$digest
}

# in_idle_container NAME: its variables are those of the command alone, so that none stays in the
# image.
in_idle_container() {
  own=() caches=()
  set_caches 0
  for pair in ${own[@]+"${own[@]}"}; do caches+=(-e "$pair"); done
  own=()
  write_env_file
  container "$1" -d
  docker rm -f "$1" >/dev/null 2>&1
  # shellcheck disable=SC2154 # set by container
  logged "${gpus_command[@]}" --entrypoint "$entrypoint" "$image" \
    -c 'while :; do sleep 60; done'
}
