"""Measures how fast all GPUs of a run reduce a buffer together: what the stack `nccl-tests` runs.

Started by torchrun, on any number of machines. Rank 0 writes a line a size: bytes, seconds, and
the bus bandwidth in GB/s, which is what NVIDIA's nccl-tests call so: bytes per second, times
2 (n - 1) / n. Must not import the product: it is sent to the machines alone.
"""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist

WARM_UP, ROUNDS = 5, 20


def seconds(buffer: torch.Tensor) -> float:
    """How long one reduction of it takes, on average."""

    def reduced(times: int) -> None:
        for _ in range(times):
            dist.all_reduce(buffer)
        if buffer.is_cuda:
            torch.cuda.synchronize()
        dist.barrier()

    reduced(WARM_UP)
    began = time.perf_counter()
    reduced(ROUNDS)
    return (time.perf_counter() - began) / ROUNDS


def main() -> None:
    """Doubles the buffer from 1 MiB to `--largest-mib`."""
    parser = argparse.ArgumentParser(description="Measures all-reduce over all GPUs of a run.")
    parser.add_argument("--largest-mib", type=int, default=8192, help="the largest buffer")
    largest = parser.parse_args().largest_mib
    device = "cpu"
    if torch.cuda.is_available():
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device != "cpu" else "gloo")
    size, mib = dist.get_world_size(), 1
    while mib <= largest:
        took = seconds(torch.ones(mib << 18, device=device))
        if dist.get_rank() == 0:
            bus = (mib << 20) / took * 2 * (size - 1) / size / 1e9
            print(f"{mib << 20:>12} bytes {took:10.6f} s {bus:9.2f} GB/s", flush=True)
        mib *= 2
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
