#!/bin/sh
# Serves with Ollama, and pulls the model as soon as the server answers.
: "${model:?}" "${listen:?}" "${port:?}" "${context?}" "${parallel?}"
(
  for _ in $(seq 60); do
    OLLAMA_HOST="127.0.0.1:$port" ollama pull "$model" && break
    sleep 5
  done
) &
[ -z "$context" ] || export OLLAMA_CONTEXT_LENGTH="$context"
[ -z "$parallel" ] || export OLLAMA_NUM_PARALLEL="$parallel"
export OLLAMA_HOST="$listen:$port"
exec ollama serve
