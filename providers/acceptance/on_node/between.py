"""How fast the GPUs of several machines exchange: NCCL's all-reduce over all of them, and over
which network NCCL goes.

Owns the calls of NCCL's C library (NVIDIA, "NCCL API", 2.27) and the reading of what it writes with
NCCL_DEBUG=INFO. One process a machine holds all its GPUs. Needs no PyTorch, but takes its NCCL.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import os
import re
import socket
import struct
import tempfile
import time
from glob import glob
from typing import TYPE_CHECKING, Any

from providers.acceptance.on_node.cuda import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ID_BYTES = 128
FLOAT32, SUM = 7, 0
SIZES = {"quick": (8 << 20, 256 << 20), "full": (8 << 20, 256 << 20, 1 << 30)}
ROUNDS = 5
"""All-reduces of each size that are timed, after one that is not. The same on every machine: none
begins without the others.
"""
ALL_REDUCE = "all-reduce between nodes"
SIOCGIFADDR = 0x8915
"""Asks an interface for its IPv4 address (netdevice(7))."""
LIBRARIES = ("libnccl.so.2", "/opt/nccl/build/lib/libnccl.so.2", "/usr/local/cuda/lib/libnccl.so.2")
"""NCCL where the loader finds it, and where AWS's and NVIDIA's images have it."""


class Nccl:
    """libnccl, each call checked. Raises OSError where it is not there or a call fails."""

    def __init__(self) -> None:
        self._library = _library()
        self._library.ncclGetErrorString.restype = ctypes.c_char_p

    def __call__(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise OSError(f"{name}: {self._library.ncclGetErrorString(code).decode()}")

    def version(self) -> str:
        """Such as 2.27.5."""
        number = ctypes.c_int()
        self("ncclGetVersion", ctypes.byref(number))
        major, rest = divmod(number.value, 10_000)
        return f"{major}.{rest // 100}.{rest % 100}"


class Id(ctypes.Structure):
    """What the first machine makes and the others need to find it."""

    _fields_ = (("bytes", ctypes.c_char * ID_BYTES),)


def measure(
    found: dict[str, Any], words: Sequence[str], mode: str, tell: Callable[[str], None]
) -> None:
    """Fills `found["between"]`. `words` are this machine's rank, how many there are, its address
    among them, and what the first one told; that one has `-` and tells it itself.
    """
    rank, nodes, address, told = int(words[0]), int(words[1]), words[2], words[3]
    found["log"] = _logged()
    name = interface(address)
    if name and "NCCL_SOCKET_IFNAME" not in os.environ:
        os.environ["NCCL_SOCKET_IFNAME"] = f"={name}"
    found["between"] = between = {"nodes": nodes, "rank": rank, "interface": name}
    found["step"] = "NCCL"
    nccl, driver = Nccl(), Driver()
    between["nccl"] = nccl.version()
    key = Id()
    if rank == 0 and told == "-":
        nccl("ncclGetUniqueId", ctypes.byref(key))
        tell(bytes(key).hex())
    else:
        ctypes.memmove(ctypes.byref(key), bytes.fromhex(told), ID_BYTES)
    found["step"] = ALL_REDUCE
    _reduced(between, _Ring(nccl, driver, key, rank, nodes), SIZES[mode])


def close(found: dict[str, Any]) -> None:
    """Reads what NCCL wrote, also where it hangs, and removes the file."""
    log = found.pop("log", None)
    if log is not None:
        with open(log, encoding="utf-8", errors="replace") as file:
            found["between"].update(networks(file.read()))
        os.unlink(log)


class _Ring:
    """All GPUs of this machine as ranks among those of all machines."""

    def __init__(self, nccl: Nccl, driver: Driver, key: Id, rank: int, nodes: int) -> None:
        self.nccl, self.driver = nccl, driver
        self.gpus = driver.count()
        self.ranks = nodes * self.gpus
        self.contexts = [ctypes.c_void_p() for _ in range(self.gpus)]
        self.streams = [ctypes.c_void_p() for _ in range(self.gpus)]
        self.comms = [ctypes.c_void_p() for _ in range(self.gpus)]
        for gpu, context in enumerate(self.contexts):
            device = ctypes.c_int()
            driver("cuDeviceGet", ctypes.byref(device), gpu)
            driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            driver("cuCtxSetCurrent", context)
            driver("cuStreamCreate", ctypes.byref(self.streams[gpu]), 1)
        self.each(
            lambda gpu: nccl(
                "ncclCommInitRank",
                ctypes.byref(self.comms[gpu]),
                self.ranks,
                key,
                rank * self.gpus + gpu,
            )
        )

    def each(self, work: Callable[[int], Any]) -> None:
        """Does it on every GPU, as one call of NCCL."""
        self.nccl("ncclGroupStart")
        for gpu, context in enumerate(self.contexts):
            self.driver("cuCtxSetCurrent", context)
            work(gpu)
        self.nccl("ncclGroupEnd")

    def seconds(self, places: Sequence[Any], size: int) -> float:
        """One all-reduce in place, of so many bytes on each GPU."""
        began = time.perf_counter()
        self.each(
            lambda gpu: self.nccl(
                "ncclAllReduce",
                places[gpu],
                places[gpu],
                ctypes.c_size_t(size // 4),
                FLOAT32,
                SUM,
                self.comms[gpu],
                self.streams[gpu],
            )
        )
        for context, stream in zip(self.contexts, self.streams):
            self.driver("cuCtxSetCurrent", context)
            self.driver("cuStreamSynchronize", stream)
        return time.perf_counter() - began


def _reduced(between: dict[str, Any], ring: _Ring, sizes: Sequence[int]) -> None:
    """The bus bandwidth of each size in GB/s, as nccl-tests defines it."""
    between["ranks"] = ring.ranks
    between["all_reduce"] = []
    share = 2 * (ring.ranks - 1) / ring.ranks
    places = []
    for context in ring.contexts:
        ring.driver("cuCtxSetCurrent", context)
        places.append(ring.driver.allocate(sizes[-1]))
        ring.driver("cuMemsetD32_v2", places[-1], 0, ctypes.c_size_t(sizes[-1] // 4))
        ring.driver("cuCtxSynchronize")
    for size in sizes:
        best = min([ring.seconds(places, size) for _ in range(ROUNDS + 1)][1:])
        rate = round(share * size / best / 1e9, 2)
        between["all_reduce"].append({"bytes": size, "bus_gb_s": rate})


def _logged() -> str:
    """The file that NCCL writes its INFO lines to, once it is loaded."""
    handle, path = tempfile.mkstemp(prefix="gpus-nccl-")
    os.close(handle)
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET", NCCL_DEBUG_FILE=path)
    return path


def networks(log: str) -> dict[str, Any]:
    """What NCCL says of its networks: the one that it `chose`, those by which its channels `went`,
    libfabric's `provider` below AWS's plugin, and its last `warning`. Pure.
    """
    chose = re.findall(r"NCCL INFO Using network ([^\n]+)", log)
    went = re.findall(r"\[send\] via NET/([^/\n]+)/\d+", log)
    provider = re.findall(r"NET/OFI Selected [Pp]rovider is ([\w.;-]+)", log)
    warning = re.findall(r"NCCL WARN ([^\n]+)", log)
    return {
        name: each
        for name, each in (
            ("chose", chose[-1].strip() if chose else ""),
            ("went", sorted(set(went))),
            ("direct", "/GDRDMA" in log),
            ("provider", provider[-1] if provider else ""),
            ("warning", warning[-1].strip()[:200] if warning else ""),
        )
        if each
    }


def interface(address: str) -> str:
    """The network interface that has this IPv4 address; empty where none does."""
    try:
        wanted = socket.inet_aton(address)
    except OSError:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            asked = struct.pack("256s", name.encode()[:15])
            try:
                if fcntl.ioctl(probe.fileno(), SIOCGIFADDR, asked)[20:24] == wanted:
                    return name
            except OSError:
                continue
    return ""


def _library() -> Any:
    """NCCL's library: the machine's, else PyTorch's."""
    places = list(LIBRARIES)
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except (ImportError, ValueError):
        spec = None
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        places += glob(os.path.join(folder, "lib", "libnccl.so.2"))
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    raise OSError("no libnccl.so.2 is on this machine")
