#!/bin/sh
# Stands for a program of an image: a server answers its health check, and a list of models to who
# has the token; anything else says what it was asked for.
name=${0##*/}
[ $# != 0 ] || set -- ""
port="" model="" before=""
for word in "$@"; do
  case "$before" in
    --port) port=$word ;;
    --model-path | --model-id | -m | -hf | serve) model=$word ;;
  esac
  before=$word
done
[ "$name $1" != "ollama serve" ] || port=${OLLAMA_HOST##*:}
echo "rehearsal stand-in: $name $*"
[ -n "$port" ] || exit 0
export GPUS_STAND_IN_MODEL="$model"
GPUS_STAND_IN_TOKEN=${VLLM_API_KEY:-${API_KEY:-${LLAMA_API_KEY:-}}}
export GPUS_STAND_IN_TOKEN
exec nc -ll -p "$port" -e /bin/answer.sh
