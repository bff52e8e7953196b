#!/bin/bash
# For a machine whose image names proxies in /etc/environment, which only logins read: neither a
# start-up script nor Docker's service would have them.

# Those of the machine itself come first. What answers on the machine is never asked by a proxy.
use_proxies() {
  local name value own
  while IFS='=' read -r name value || [ -n "$name" ]; do
    name=${name#export }
    case "$name" in
      http_proxy | https_proxy | no_proxy | HTTP_PROXY | HTTPS_PROXY | NO_PROXY) ;;
      *) continue ;;
    esac
    value=${value#[\"\']} value=${value%[\"\']}
    [ -n "${!name:-}" ] || export "$name=$value"
  done < <(cat /etc/environment 2>/dev/null)
  [ -n "${http_proxy-}${https_proxy-}${HTTP_PROXY-}${HTTPS_PROXY-}" ] || return 0
  # curl and apt read the one, other programs the other.
  export http_proxy="${http_proxy-${HTTP_PROXY-}}" https_proxy="${https_proxy-${HTTPS_PROXY-}}"
  no_proxy="${no_proxy-${NO_PROXY-}}" own=localhost,127.0.0.1,169.254.169.254
  export no_proxy="${no_proxy:+$no_proxy,}$own,metadata.google.internal"
  export HTTP_PROXY="$http_proxy" HTTPS_PROXY="$https_proxy" NO_PROXY="$no_proxy"
}

# Before Docker is installed: its service starts with them.
proxies_for_docker() {
  local folder=/etc/systemd/system/docker.service.d
  grep -qi '_proxy=' /etc/environment 2>/dev/null || return 0
  mkdir -p "$folder"
  printf '[Service]\nEnvironmentFile=-/etc/environment\n' >"$folder/gpus-proxy.conf"
}
