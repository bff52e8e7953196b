"""How fast the GPUs are where there is no PyTorch: by the driver alone, through its C library.

Owns the calls of libcuda (CUDA Driver API reference: memory management, 13.0). There are no matrix
products here; memory and the way to the host are measured as with PyTorch.
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

COPY_BYTES = 2 << 30
PINNED_BYTES = 256 << 20
CHUNK_BYTES = 1 << 30
SPARE_BYTES = 1 << 30
ROUNDS = 3


class Driver:
    """libcuda, each call checked. Raises OSError where it is not there or a call fails."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise OSError(f"{name}: CUDA error {code}")

    def count(self) -> int:
        """How many GPUs it shows to this process."""
        number = ctypes.c_int()
        self("cuDeviceGetCount", ctypes.byref(number))
        return number.value

    def free(self) -> int:
        """Bytes of the current GPU that are free."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, size: int) -> ctypes.c_uint64:
        """So many bytes on the current GPU."""
        place = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        return place

    def seconds(self, work: Callable[[], Any]) -> float:
        """The shortest of some runs."""
        found = []
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            work()
            self("cuCtxSynchronize")
            found.append(time.perf_counter() - began)
        return min(found[1:])


def measure(found: dict[str, Any]) -> None:
    """Fills `found` with what only the driver can measure, one GPU after the other."""
    driver = Driver()
    found["measured"] = []
    for gpu in range(driver.count()):
        found["step"] = f"GPU {gpu} by its driver"
        device, context = ctypes.c_int(), ctypes.c_void_p()
        driver("cuDeviceGet", ctypes.byref(device), gpu)
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        driver("cuCtxSetCurrent", context)
        try:
            found["measured"].append({"index": gpu, "matmul": {}, **_speeds(driver)})
            found["measured"][-1].update(_checked(driver))
        finally:
            driver("cuDevicePrimaryCtxRelease_v2", device)


def _speeds(driver: Driver) -> dict[str, float]:
    size = min(COPY_BYTES, driver.free() // 4)
    source, target = driver.allocate(size), driver.allocate(size)
    here, pinned = ctypes.c_void_p(), ctypes.c_size_t(PINNED_BYTES)
    driver("cuMemAllocHost_v2", ctypes.byref(here), pinned)
    inside = driver.seconds(
        lambda: driver("cuMemcpyDtoD_v2", target, source, ctypes.c_size_t(size))
    )
    inward = driver.seconds(lambda: driver("cuMemcpyHtoD_v2", target, here, pinned))
    outward = driver.seconds(lambda: driver("cuMemcpyDtoH_v2", here, source, pinned))
    driver("cuMemFreeHost", here)
    for place in (source, target):
        driver("cuMemFree_v2", place)
    return {
        "memory_tb_s": round(2 * size / inside / 1e12, 3),
        "to_device_gb_s": round(PINNED_BYTES / inward / 1e9, 1),
        "from_device_gb_s": round(PINNED_BYTES / outward / 1e9, 1),
    }


def _checked(driver: Driver) -> dict[str, int]:
    """A number of its own into each GiB that is free, and its first and last word read again."""
    held: list[ctypes.c_uint64] = []
    words = CHUNK_BYTES // 4
    while driver.free() > CHUNK_BYTES + SPARE_BYTES:
        held.append(driver.allocate(CHUNK_BYTES))
        driver("cuMemsetD32_v2", held[-1], ctypes.c_uint(len(held)), ctypes.c_size_t(words))
    driver("cuCtxSynchronize")
    wrong = 0
    for number, place in enumerate(held, start=1):
        for at in (0, CHUNK_BYTES - 4):
            word = ctypes.c_uint()
            driver(
                "cuMemcpyDtoH_v2",
                ctypes.byref(word),
                ctypes.c_uint64(place.value + at),
                ctypes.c_size_t(4),
            )
            if word.value != number:
                wrong += 1
                break
        driver("cuMemFree_v2", place)
    return {"memory_checked_gib": len(held), "memory_wrong_gib": wrong}
