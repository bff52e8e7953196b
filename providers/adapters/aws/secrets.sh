#!/bin/bash
# Writes the values of the secrets for a shell to source, NAME='value' each; /run is memory, so each
# boot does it anew. Asks as the machine's instance profile. Nothing of a value is ever a word of a
# command line.
: "${file:?}" "${region?}"
# NAME=REFERENCE each.
declare -a secrets
set -euo pipefail
umask 077
export no_proxy="${no_proxy:+$no_proxy,}169.254.169.254"

value() { # reference
  case "$1" in
    ssm:*)
      aws ssm get-parameter --region "$region" --with-decryption --query Parameter.Value \
        --output text --name "${1#ssm:}"
      ;;
    *)
      aws secretsmanager get-secret-value --region "$(cut -d: -f4 <<<"$1")" \
        --query SecretString --output text --secret-id "$1"
      ;;
  esac
}

install -d -m 700 "${file%/*}"
for secret in "${secrets[@]}"; do
  name=${secret%%=*}
  found=$(value "${secret#*=}") || {
    echo "gpus: the secret $name could not be fetched" >&2
    exit 1
  }
  printf '%s=%q\n' "$name" "$found"
done >"$file.new"
mv "$file.new" "$file"
