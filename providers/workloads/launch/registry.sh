#!/bin/bash
# The part of start.sh that signs in to the registry of the image, while it is pulled.
#
# docker login: --password-stdin, and DOCKER_CONFIG, the folder where it keeps what it was given,
# are from "docker login" and "Docker CLI" (Docker, 2026-11). Artifact Registry takes the account's
# access token from oauth2accesstoken ("Configure authentication to Artifact Registry for Docker",
# Google, 2026-11), ECR a token of its own from AWS ("Private registry authentication", Amazon,
# 2026-11).
: "${registry:?}" "${registry_user?}"

# Where Docker keeps what it was given, in memory.
signed_in=/run/gpus-registry$GPUS_ROOT

# The password is Docker's alone: neither the setup lines nor the program find it.
keep_password() {
  sign_out
  registry_password=${GPUS_REGISTRY_PASSWORD-}
  unset GPUS_REGISTRY_PASSWORD
}

own_password() {
  case "$registry" in
    *.amazonaws.com)
      region=${registry#*.dkr.ecr.}
      aws ecr get-login-password --region "${region%%.*}"
      ;;
    *)
      account=computeMetadata/v1/instance/service-accounts/default
      curl --noproxy '*' -fsS -H "Metadata-Flavor: Google" \
        "http://${GCE_METADATA_HOST:-metadata.google.internal}/$account/token" |
        sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p'
      ;;
  esac
}

# Never a word of a command line: printf is the shell's own.
login() {
  user=$registry_user password=$registry_password
  if [ -z "$user" ]; then
    user=oauth2accesstoken
    case "$registry" in *.amazonaws.com) user=AWS ;; esac
    password=$(own_password)
  fi
  if [ -z "$password" ]; then
    echo "gpus: the password for $registry could not be fetched"
    return 1
  fi
  printf %s "$password" | docker login --username "$user" --password-stdin "$registry"
}

sign_in() {
  export DOCKER_CONFIG="$signed_in"
  trap 'sign_out; unmount_buckets' EXIT
  (umask 077 && mkdir -p "$DOCKER_CONFIG")
  for pause in 1 5 20 0; do
    if said=$(login 2>&1 9>&-); then return; fi
    echo "$said" >>"$GPUS_ROOT/log"
    case "$said" in
      *unauthorized* | *denied* | *" 401 "* | *" 403 "*)
        say setup-wrong 1 "$registry refused the user ${registry_user:-that this machine is}:" \
          "look at workload.registry, and at the log"
        exit 1
        ;;
    esac
    sleep "$pause"
  done
  say setup-failed 1 "this machine could not sign in to $registry, see the log"
  exit 1
}

sign_out() {
  rm -rf "$signed_in"
  unset DOCKER_CONFIG registry_password
}
