"""Asks every GPU of a Ray cluster for its name, each by a task of its own.

What the stack `ray-l4x2` runs, and a start for one's own: put your work in the place of `look`.
"""

import os
import socket
import subprocess

import ray


@ray.remote(num_gpus=1)
def look() -> str:
    """The node and the card that this task was given."""
    card = os.environ["CUDA_VISIBLE_DEVICES"]
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", f"--id={card}"]
    name = subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip()
    return f"{socket.gethostname()} GPU {card}: {name}"


ray.init()
gpus = int(ray.cluster_resources().get("GPU", 0))
print(f"{len(ray.nodes())} nodes, {gpus} GPUs")
for line in ray.get([look.remote() for _ in range(gpus)]):
    print(line)
