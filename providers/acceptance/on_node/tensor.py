"""How fast the GPUs are, by PyTorch: matrix products, memory, the way to the host, links.

Owns the method. A card at its power limit slows down within a tenth of a second, so speed is that
of short windows with a rest before each, and the best one counts: it repeats, and shows what the
card can do. What it keeps up is the soak's to say. Data is random: on zeros a card is faster.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

REST_S = 0.25
WINDOW_S = 0.025
ROUNDS = 3
LOAD_S = 0.4
SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (12288, 8192, 8192))
"""Rows, columns and depth: each fills a large card, and the best differs from model to model."""
SMALL = SHAPES[:1]
CAPABLE = {
    "bf16": ((8, 0), SHAPES),
    "fp16": ((7, 0), SHAPES),
    "fp8": ((8, 9), SHAPES),
    "tf32": ((8, 0), SHAPES[1:2]),
    "fp32": ((0, 0), SMALL),
}
"""By dtype: the compute capability from which a card has units for it (CUDA C++ Programming Guide,
"Compute Capabilities"), and the shapes to try.
"""
COPY_BYTES = 4 << 30
PINNED_BYTES = 256 << 20
PEER_BYTES = 256 << 20
SPARE_BYTES = 1 << 30
CHUNK_BYTES = 1 << 30
REDUCED_BYTES = (8 << 20, 1 << 30)


class Bench:
    """Every measurement of every GPU, into `found`, which is whole after each step."""

    def __init__(self, torch: Any, found: dict[str, Any]) -> None:
        self.torch, self.found = torch, found
        self.gpus = list(range(torch.cuda.device_count()))
        found["measured"] = [{"index": gpu, "matmul": {}} for gpu in self.gpus]
        self.best: dict[int, tuple[float, Callable[[], Any]]] = {}

    def step(self, name: str, work: Callable[[], Any]) -> None:
        """Does one step; what goes wrong is a line of `errors`, and the next step follows."""
        self.found["step"] = name
        try:
            work()
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            self.found["errors"][name] = f"{type(error).__name__}: {first[:200]}"
        self.torch.cuda.empty_cache()

    def each(self, name: str, work: Callable[[int], Any]) -> None:
        """Does one step on all GPUs at once, as a job would load them."""

        def on(gpu: int) -> None:
            with self.torch.cuda.device(gpu):
                work(gpu)

        def all_of_them() -> None:
            with ThreadPoolExecutor(len(self.gpus)) as pool:
                list(pool.map(on, self.gpus))

        self.step(name, all_of_them)

    def quick(self, loaded: Callable[[], Any]) -> None:
        """All but the soak. `loaded` is called while every GPU computes."""
        for dtype in CAPABLE:
            # The mode is the process's, not a thread's: one dtype at a time.
            self.torch.set_float32_matmul_precision("highest" if dtype == "fp32" else "high")
            self.each(dtype, partial(self.matmul, dtype))
        self.step("load", lambda: self.load(loaded))
        self.best.clear()
        self.each("memory", self.memory)
        for gpu in self.gpus:
            self.step(f"host-device {gpu}", partial(self.host_device, gpu))
        self.each("memory check", self.check_memory)
        if len(self.gpus) > 1:
            self.step("peers", self.peers)
            self.step("all-reduce", self.all_reduce)

    def seconds(self, work: Callable[[], Any], times: int) -> float:
        """Seconds of one run among so many, by the card's own clock."""
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(times):
            work()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3 / times

    def fastest(self, work: Callable[[], Any]) -> float:
        """Seconds of one run in the best window."""
        work()
        times = min(max(2, round(WINDOW_S / max(self.seconds(work, 2), 1e-6))), 500)
        found = []
        for _ in range(ROUNDS):
            time.sleep(REST_S)
            found.append(self.seconds(work, times))
        return min(found)

    def matmul(self, dtype: str, gpu: int) -> None:
        """The best rate of a dtype over its shapes, in TFLOP/s, where the card has units for it."""
        least, shapes = CAPABLE[dtype]
        if self.torch.cuda.get_device_capability() < least:
            return
        for shape in shapes:
            work = product(self.torch, dtype, *shape)
            tflops = 2e-12 * shape[0] * shape[1] * shape[2] / self.fastest(work)
            known = self.found["measured"][gpu]["matmul"]
            if tflops > known.get(dtype, {"tflops": 0.0})["tflops"]:
                known[dtype] = {"tflops": round(tflops, 1), "shape": list(shape)}
            if dtype == "bf16" or gpu not in self.best:
                self.best[gpu] = max(
                    self.best.get(gpu, (0.0, work)), (tflops, work), key=lambda each: each[0]
                )

    def load(self, loaded: Callable[[], Any]) -> None:
        """Keeps all GPUs computing while `loaded` looks at them."""
        for gpu, (_, work) in self.best.items():
            with self.torch.cuda.device(gpu):
                times = max(2, int(LOAD_S / max(self.seconds(work, 2), 1e-6)))
                for _ in range(times):
                    work()
        time.sleep(LOAD_S / 4)
        loaded()
        for gpu in self.gpus:
            self.torch.cuda.synchronize(gpu)

    def memory(self, gpu: int) -> None:
        """The rate of a copy inside the card's memory in TB/s, read and written bytes both."""
        size = min(COPY_BYTES, int(self.torch.cuda.mem_get_info()[0] // 4))
        source, target = (self.bytes(size) for _ in range(2))
        seconds = self.fastest(lambda: target.copy_(source))
        self.found["measured"][gpu]["memory_tb_s"] = round(2 * size / seconds / 1e12, 3)

    def host_device(self, gpu: int) -> None:
        """The rates to and from pinned memory of the host, in GB/s; one GPU at a time."""
        with self.torch.cuda.device(gpu):
            here = self.torch.empty(PINNED_BYTES, dtype=self.torch.uint8, pin_memory=True)
            there = self.bytes(PINNED_BYTES)
            for name, source, target in (
                ("to_device_gb_s", here, there),
                ("from_device_gb_s", there, here),
            ):
                seconds = min(
                    self.seconds(
                        partial(target.copy_, source, non_blocking=True),
                        4,
                    )
                    for _ in range(5)
                )
                self.found["measured"][gpu][name] = round(PINNED_BYTES / seconds / 1e9, 1)

    def check_memory(self, gpu: int) -> None:
        """Writes a number of its own into each GiB that is free, then reads all of them: memory
        that is not there shows as another one's number.
        """
        torch, wrong = self.torch, 0
        held: list[Any] = []
        while torch.cuda.mem_get_info()[0] > CHUNK_BYTES + SPARE_BYTES:
            chunk = torch.empty(CHUNK_BYTES // 4, dtype=torch.int32, device="cuda")
            held.append(chunk.fill_(len(held) + 1))
        for number, chunk in enumerate(held, start=1):
            least, most = torch.aminmax(chunk)
            wrong += (int(least), int(most)) != (number, number)
        self.found["measured"][gpu].update(memory_checked_gib=len(held), memory_wrong_gib=wrong)

    def peers(self) -> None:
        """The rate from each GPU to each later one in GB/s, one pair at a time."""
        self.found["peers"] = []
        buffers = [self.bytes(PEER_BYTES, gpu) for gpu in self.gpus]
        for one in self.gpus:
            for other in self.gpus[one + 1 :]:
                with self.torch.cuda.device(one):
                    work = partial(buffers[other].copy_, buffers[one], non_blocking=True)
                    self.seconds(work, 1)
                    rate = PEER_BYTES / min(self.seconds(work, 4) for _ in range(3)) / 1e9
                self.found["peers"].append({"pair": [one, other], "gb_s": round(rate, 1)})

    def all_reduce(self) -> None:
        """The bus bandwidth of NCCL's all-reduce over all GPUs, in GB/s.

        As nccl-tests defines it: 2 (n - 1) / n of the bytes, over the time of one all-reduce.
        """
        from torch.cuda import nccl

        self.found["all_reduce"] = []
        share = 2 * (len(self.gpus) - 1) / len(self.gpus) if len(self.gpus) > 1 else 1.0
        for size in REDUCED_BYTES:
            parts = [
                self.torch.zeros(size // 4, dtype=self.torch.float32, device=gpu)
                for gpu in self.gpus
            ]
            with self.torch.cuda.device(self.gpus[0]):
                self.seconds(partial(nccl.all_reduce, parts), 2)
                seconds = min(self.seconds(partial(nccl.all_reduce, parts), 10) for _ in range(3))
            self.found["all_reduce"].append(
                {
                    "bytes": size,
                    "gpus": len(self.gpus),
                    "bus_gb_s": round(share * size / seconds / 1e9, 1),
                }
            )

    def soak(self, seconds: float, look: Callable[[], Any]) -> None:
        """Keeps every GPU at bf16 (else fp32) products for so long: what it keeps up, and whether
        the same product always gives the same bits. `look` is called about every 5 seconds.
        """
        ends = time.monotonic() + seconds
        self.found["soak"] = [{"index": gpu} for gpu in self.gpus]
        with ThreadPoolExecutor(len(self.gpus)) as pool:
            works = [pool.submit(self._soaked, gpu, ends) for gpu in self.gpus]
            while time.monotonic() < ends:
                look()
                time.sleep(min(5.0, max(0.0, ends - time.monotonic())))
            for gpu, work in enumerate(works):
                self.found["soak"][gpu].update(work.result())

    def _soaked(self, gpu: int, ends: float) -> dict[str, Any]:
        with self.torch.cuda.device(gpu):
            least = CAPABLE["bf16"][0]
            dtype = "bf16" if self.torch.cuda.get_device_capability() >= least else "fp32"
            size = SHAPES[1] if dtype == "bf16" else SHAPES[0]
            work = product(self.torch, dtype, *size)
            first, flop = work().clone(), 2.0 * size[0] * size[1] * size[2]
            times = max(2, int(0.5 / max(self.seconds(work, 2), 1e-6)))
            rates: list[float] = []
            wrong = 0
            while time.monotonic() < ends:
                rates.append(flop / self.seconds(work, times) / 1e12)
                wrong += not self.torch.equal(work(), first)
            late = rates[-max(1, len(rates) // 4) :] or [0.0]
            return {
                "dtype": dtype,
                "sustained_tflops": round(sum(late) / len(late), 1),
                "wrong_results": wrong,
                "seconds": round(len(rates) * 0.5),
            }

    def bytes(self, size: int, gpu: Any = None) -> Any:
        """So many random bytes on a GPU."""
        device = "cuda" if gpu is None else gpu
        return self.torch.randint(0, 256, (size,), dtype=self.torch.uint8, device=device)


def product(torch: Any, dtype: str, rows: int, columns: int, depth: int) -> Callable[[], Any]:
    """A matrix product of random numbers as a linear layer computes it; each call gives its result.

    fp8 is e4m3 with scale 1 and fast accumulation, by the private `torch._scaled_mm`: PyTorch has
    no public one.
    """
    left = torch.randn(rows, depth, device="cuda")
    right = torch.randn(columns, depth, device="cuda")
    if dtype == "fp8":
        left, right = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn)
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(  # noqa: SLF001 - see above
            left,
            right.t(),
            scale_a=one,
            scale_b=one,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)
    left, right = left.to(kind), right.to(kind)
    result = torch.empty(rows, columns, device="cuda", dtype=kind)
    return lambda: torch.mm(left, right.t(), out=result)
