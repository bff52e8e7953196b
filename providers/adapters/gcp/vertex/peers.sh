#!/bin/bash
# Writes the nodes' addresses, the first one leading, and which node this is: what the start-up
# script finds on other clouds' machines by login. Vertex AI tells each container in CLUSTER_SPEC
# (Google, "Distributed training", 2026-11).
: "${GPUS_ROOT:?}"
mkdir -p "$GPUS_ROOT"
GPUS_NODE_RANK=$(python3 - "$GPUS_ROOT/peers" <<'GPUS_CLUSTER'
import json, os, sys
spec = json.loads(os.environ["CLUSTER_SPEC"])
pools = sorted(name for name in spec["cluster"] if name.startswith("workerpool"))
peers = [
    (name, index, host.rpartition(":")[0] or host)
    for name in pools
    for index, host in enumerate(spec["cluster"][name])
]
with open(sys.argv[1] + ".new", "w") as file:
    file.write("".join(host + "\n" for _, _, host in peers))
os.replace(sys.argv[1] + ".new", sys.argv[1])
task = spec["task"]
print([(name, index) for name, index, _ in peers].index((task["type"], int(task["index"]))))
GPUS_CLUSTER
) || {
  echo "gpus: wanted this node's place in CLUSTER_SPEC, found none" >&2
  exit 1
}
export GPUS_NODE_RANK
