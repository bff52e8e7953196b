"""A program of a user's own."""

import pulumi

import providers as p
from providers import Cluster, Gpu, GpuCluster

first = GpuCluster(
    "train",
    gpu=["H100:8", Gpu("A100-80GB", count=8)],
    spot="prefer",
    ttl="20h",
    max_price_per_hour=60,
    providers=["gcp", "aws"],
    labels={"team": "research"},
    workload={"launcher": "torchrun", "command": "train.py", "env": {"A": "b"}},
)
after = GpuCluster("eval", gpu="L4:1", labels={"after": first.generation}, disk_gib=200)
pulumi.export("ssh", first.ssh)

plan = p.plan(Cluster(name="ft", gpu=Gpu("H100", count=8, fallback=["A100-80GB:8"])))
best = plan.best
if best is not None and best.price_usd_per_hour is not None:
    print(best.price_usd_per_hour * 24)
prices = [offer.price_usd_per_hour for offer in p.offers("L4", spot=True) if offer.gpu_count >= 1]
sizes = [row.gpu for row in p.size("7b", train="lora") if row.answer == "fits"]
print(p.__version__)
with p.provision("L4:1", spot="only", ttl="1h", world="rehearsal") as machine:
    code = machine.run(["nvidia-smi"], check=True)
