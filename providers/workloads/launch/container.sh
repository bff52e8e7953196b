#!/bin/bash
# The part of start.sh that has Docker with NVIDIA's toolkit, the image, and a container for each
# process.
: "${image:?}" "${entrypoint:?}" "${kept?}" "${registry?}"
declare -a cache_folders file_paths model_paths mount_paths mount_modes
# One name a process, and "INDEX NAME=FOLDER" for each variable that says where they keep what they
# download.
declare -a process_names process_caches

prepare_docker() {
  [ -z "$registry" ] || keep_password
  install_docker
}

install_docker() {
  if ! command -v docker >/dev/null || half_installed docker.io; then
    proxies_for_docker
    logged install_packages docker.io || give_up setup-failed 1 docker could not be installed
  fi
  if ! docker info --format '{{json .Runtimes}}' 2>/dev/null | grep -q nvidia; then
    command -v nvidia-ctk >/dev/null || logged install_toolkit
    logged nvidia-ctk runtime configure --runtime=docker && systemctl restart docker
  fi
  for _ in $(seq 60); do
    nvidia-smi >/dev/null 2>&1 && break
    sleep 5
  done
}

# half_installed PACKAGE: the machine went down amid its installation.
half_installed() {
  # shellcheck disable=SC2016 # expanded by dpkg-query
  case "$(dpkg-query -Wf '${db:Status-Status}' "$1" 2>/dev/null)" in
    '' | installed | not-installed | config-files) return 1 ;;
  esac
}

install_toolkit() {
  keyring=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg
  source=https://nvidia.github.io/libnvidia-container
  curl -fsSL "$source/gpgkey" | gpg --dearmor --yes -o "$keyring"
  echo "deb [signed-by=$keyring] $source/stable/deb/\$(ARCH) /" \
    >/etc/apt/sources.list.d/nvidia-container-toolkit.list
  install_packages nvidia-container-toolkit
}

pull_image() {
  [ -z "$registry" ] || docker image inspect "$image" >/dev/null 2>&1 || sign_in
  code=125
  # 125: the registry or Docker itself; anything else says something of the image.
  for pause in 5 20 60 0; do
    logged docker run --rm --network none --entrypoint "$entrypoint" "$image" -c :
    code=$?
    if [ "$code" != 125 ] || [ -n "$(full_disk)" ]; then break; fi
    sleep "$pause"
  done
  [ -z "$registry" ] || sign_out
  case "$code" in
    0) ;;
    126 | 127)
      say setup-wrong "$code" \
        "the image $image has no $entrypoint, which runs the command line: take one with a shell"
      exit 1
      ;;
    *)
      give_up setup-failed "$code" "the image $image could not be pulled or started"
      ;;
  esac
  for name in "${process_names[@]}"; do containers+=("gpus-$name"); done
  # Whoever the image's user is.
  for cache in "${cache_folders[@]}"; do
    mkdir -p "$GPUS_ROOT/cache/$cache" && chmod 1777 "$GPUS_ROOT/cache/$cache"
  done
}

# The models that are on the machine are mounted; an image may have the others.
find_models() {
  models=()
  for model in ${model_paths[@]+"${model_paths[@]}"}; do
    model=$(there "$model")
    # shellcheck disable=SC2016 # expanded by the image's shell
    if [ -e "$model" ]; then
      models+=(--mount "type=bind,source=$model,target=$model,readonly")
    elif ! logged docker run --rm --network none --entrypoint "$entrypoint" "$image" \
      -c 'test -e "$0"' "$model"; then
      found="neither on the machine nor in the image $image"
      say setup-wrong 1 "the model $model is $found: fetch it in setup, or name a published one"
      exit 1
    fi
  done
}

# set_caches INDEX: what a container has downloaded outlives it.
set_caches() {
  for entry in ${process_caches[@]+"${process_caches[@]}"}; do
    pair=${entry#* }
    [ "${entry%% *}" != "$1" ] || own+=("${pair%%=*}=$GPUS_ROOT/cache/${pair#*=}")
  done
}

# container NAME WORD: how one is made, as every one sees this machine; WORD says how it runs.
container() {
  gpus_command=(docker run "$2" --init --name "$1" --gpus all --network host --ipc host)
  gpus_command+=(-v "$GPUS_ROOT:$GPUS_ROOT" ${workdir+-w "$PWD"})
  # shellcheck disable=SC2154 # of join.sh, where there is one
  gpus_command+=(${fabric_options[@]+"${fabric_options[@]}"})
  for path in ${file_paths[@]+"${file_paths[@]}"}; do
    path=$(there "$path")
    gpus_command+=(-v "$path:$path" -w "$PWD")
  done
  [ -z "$kept" ] || gpus_command+=(-v "$kept${at-:$kept}")
  gpus_command+=(${models[@]+"${models[@]}"})
  for entry in "${!mount_paths[@]}"; do
    path=${mount_paths[entry]}
    # shellcheck disable=SC2154 # of mounts.sh, where there are any
    gpus_command+=(-v "${mount_places[entry]-$path}:$path:${mount_modes[entry]}")
  done
}

# run_in_container INDEX LINE
run_in_container() {
  container "gpus-${process_names[$1]}" --rm
  for pair in ${own[@]+"${own[@]}"}; do gpus_command+=(-e "${pair%%=*}"); done
  set -- "$1" "${fabric_line-}$2"
  # The image's own ENTRYPOINT would take the line for its arguments.
  gpus_command+=(--env-file "$GPUS_ROOT/container.env" --entrypoint "$entrypoint" "$image" -c "$2")
  docker rm -f "gpus-${process_names[$1]}" >/dev/null 2>&1
}

write_env_file() {
  env -0 | grep -zvE '^(PATH|HOME|PWD|SHLVL|_|USER|LOGNAME|SHELL)=' |
    tr '\n\0' ' \n' >"$GPUS_ROOT/container.env"
  chmod 600 "$GPUS_ROOT/container.env"
}
