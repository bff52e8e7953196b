#!/bin/sh
# Stands for a program of an image: a server answers its health check, and a list of models to who
# has the token, once all its nodes have met; anything else says what it was asked for.
name=${0##*/}
[ $# != 0 ] || set -- ""
port="" model="" before="" nodes=1 rank=0 at="" door=""

# meet: the first node waits for each other one, which goes on knocking.
meet() {
  if [ "$rank" = 0 ]; then
    for _ in $(seq "$((nodes - 1))"); do echo met | nc -l -p "$door" >/dev/null || exit; done
    echo "rehearsal stand-in: all $nodes nodes are there"
  else
    until nc -w 5 "$at" "$door" </dev/null 2>/dev/null | grep -q met; do sleep 1; done
    echo "rehearsal stand-in: node $rank has joined"
    exec sleep infinity
  fi
}

for word in "$@"; do
  case "$before" in
    --port) port=$word ;;
    --nnodes) nodes=$word ;;
    --node-rank) rank=$word ;;
    --master-addr) at=$word ;;
    --master-port) door=$word ;;
    --dist-init-addr) at=${word%:*} door=${word##*:} ;;
    --model-path | --model-id | -m | -hf | serve) model=$word ;;
  esac
  before=$word
done
[ "$name $1" != "ollama serve" ] || port=${OLLAMA_HOST##*:}
echo "rehearsal stand-in: $name $*${OMPI_COMM_WORLD_RANK:+, rank $OMPI_COMM_WORLD_RANK}"
[ -n "$port" ] || exit 0
[ "$nodes" = 1 ] || meet
export GPUS_STAND_IN_MODEL="$model"
GPUS_STAND_IN_TOKEN=${VLLM_API_KEY:-${API_KEY:-${LLAMA_API_KEY:-}}}
export GPUS_STAND_IN_TOKEN
exec nc -ll -p "$port" -e /bin/answer.sh
