#!/bin/sh
# Runs a Python program with the first python3 here that has PyTorch, else with any.
: "${program:?}" "${words:?}" "${fabric:?}"

has_torch() { "$1" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))'; }

any=
for python in python3 python "$HOME/.venv/bin/python" "$HOME"/*conda3/bin/python \
  /opt/conda/bin/python /opt/*/bin/python /opt/*/.venv/bin/python /venv/*/bin/python; do
  command -v "$python" >/dev/null 2>&1 || continue
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue
  [ -n "$any" ] || any=$python
  if has_torch "$python" 2>/dev/null; then
    any=$python
    break
  fi
done
if [ -z "$any" ]; then
  echo 'no Python 3.8 or newer is on this machine' >&2
  exit 127
fi
# Between machines NCCL needs its plugin; inside one it does without.
case "$words" in
  *' '*)
    eval "$fabric"
    use_fabric
    if [ -n "$fabric_path" ]; then
      export LD_LIBRARY_PATH="$fabric_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    fi
    ;;
esac
# shellcheck disable=SC2086 # several plain words
exec "$any" -c "$program" $words
