#!/bin/bash
# What a Compute Engine machine does at every boot before its work: it fetches its secrets, and runs
# a container with all GPUs. What follows this program runs whatever becomes of it; its exit status
# is kept for readiness.
: "${secrets?}" "${secrets_file:?}" "${image?}" "${finished:?}"
declare -a secret_names

# NAME='value' each, for a shell to source. Nothing of a value, nor the token, is ever a word of a
# command line.
fetch_secrets() {
  install -d -m 700 "${secrets_file%/*}"
  GPUS_SECRETS="$secrets" GPUS_SECRETS_FILE="$secrets_file" python3 - <<'GPUS_SECRETS'
import base64, json, os, shlex, urllib.request
wanted = json.loads(os.environ["GPUS_SECRETS"])
metadata = "http://metadata.google.internal/computeMetadata/v1/instance"
vault = "https://secretmanager.googleapis.com/v1/"
def ask(url, headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return json.load(answer)
account = metadata + "/service-accounts/default/token"
token = ask(account, {"Metadata-Flavor": "Google"})["access_token"]
lines = []
for name, version in wanted.items():
    try:
        found = ask(vault + version + ":access", {"Authorization": "Bearer " + token})
    except OSError as error:
        secret = name + " (" + version + ")"
        raise SystemExit("gpus: the secret " + secret + " could not be fetched: " + str(error))
    value = base64.b64decode(found["payload"]["data"]).decode()
    lines.append(name + "=" + shlex.quote(value) + "\n")
path = os.environ["GPUS_SECRETS_FILE"]
file = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
os.fchmod(file, 0o600)
os.write(file, "".join(lines).encode())
os.close(file)
os.replace(path + ".new", path)
GPUS_SECRETS
}

# The Deep Learning images of 2026 come without docker (user reports).
install_docker() {
  if ! command -v docker >/dev/null; then
    proxies_for_docker
    install_packages docker.io
  fi
  if ! command -v nvidia-ctk >/dev/null; then
    keyring=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg
    source=https://nvidia.github.io/libnvidia-container
    curl -fsSL "$source/gpgkey" | gpg --dearmor --yes -o "$keyring"
    echo "deb [signed-by=$keyring] $source/stable/deb/\$(ARCH) /" \
      >/etc/apt/sources.list.d/nvidia-container-toolkit.list
    install_packages nvidia-container-toolkit
  fi
  if ! docker info --format '{{json .Runtimes}}' | grep -q nvidia; then
    nvidia-ctk runtime configure --runtime=docker
    systemctl restart docker
  fi
}

# A container that ended with 0 while the machine was up is not run again; one that failed, or went
# down with it, is.
run_container() {
  install_docker
  for _ in $(seq 60); do
    nvidia-smi >/dev/null 2>&1 && break
    sleep 5
  done
  running=$(docker inspect --format '{{.Config.Image}}' gpus 2>/dev/null || true)
  if [ "$running" = "$image" ] && [ -e "$finished" ]; then
    echo "gpus: the container has finished; it is not run again"
    exit 0
  elif [ "$running" = "$image" ]; then
    docker start gpus
  else
    rm -f "$finished"
    docker rm -f gpus >/dev/null 2>&1 || true
    # By name: docker takes the values from its own environment, so that they stand on no command
    # line.
    options=()
    [ ! -d /dev/infiniband ] || options=(--device /dev/infiniband --ulimit memlock=-1)
    [ ! -d /usr/local/gib ] || options+=(-v /usr/local/gib:/usr/local/gib:ro)
    for name in ${secret_names[@]+"${secret_names[@]}"}; do options+=(-e "$name"); done
    # shellcheck source=/dev/null
    if [ -n "$secrets" ]; then set -a; . "$secrets_file"; set +a; fi
    docker run -d --name gpus --restart on-failure --gpus all --network host --ipc host \
      ${options[@]+"${options[@]}"} "$image"
  fi
  mkdir -p "${finished%/*}"
  # shellcheck disable=SC2016 # expanded by the shell that waits for the container
  systemd-run --collect --unit "gpus-watch-$(date +%s)" bash -c '
while code=$(docker wait gpus); do
  echo "gpus: the container ended with $code"
  if [ "$code" = 0 ]; then
    [ "$(systemctl is-system-running)" = stopping ] || touch "$0"
    exit 0
  fi
  sleep 5
done' "$finished"
}

(
  set -euo pipefail
  keep_status
  use_proxies
  if [ -n "$secrets" ]; then fetch_secrets; fi
  if [ -n "$image" ]; then run_container; fi
)
