"""The whole look at a machine: started there, it prints one line of JSON that begins with PREFIX.

Owns the order of the steps and the time they may take. What does not finish is named, and what was
measured until then is printed: a card that hangs is an answer too.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from providers.acceptance.on_node import between, cuda, driver, host, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "gpus-acceptance "
TOLD = "gpus-between "
"""Begins the line by which the first of several machines tells what the others need."""
SCHEMA = 1
LIMIT_S = {"quick": 90.0, "full": 300.0}
BETWEEN_S = {"quick": 60.0, "full": 120.0}
SOAK_S = 60.0
WATCH_S = 0.5


def main(mode: str, *words: str) -> None:
    """Looks, measures, prints, and ends this process. With `words` (see `between`) it measures only
    what is between this machine and others.
    """
    found: dict[str, Any] = {"schema": SCHEMA, "mode": mode, "errors": {}}
    limit_s = BETWEEN_S[mode] if words else LIMIT_S[mode]
    began = time.monotonic()
    work = threading.Thread(target=_look, args=(found, mode, words), daemon=True)
    work.start()
    work.join(limit_s)
    if work.is_alive():
        found["errors"][str(found.get("step"))] = f"did not finish within {limit_s:.0f} s"
    found.pop("step", None)
    between.close(found)
    found["seconds"] = round(time.monotonic() - began, 1)
    _print(PREFIX + json.dumps(found))
    # A thread that hangs in the driver would keep the process.
    os._exit(0)


def _print(line: str) -> None:
    sys.stdout.write("\n" + line + "\n")
    sys.stdout.flush()


def _look(found: dict[str, Any], mode: str, words: tuple[str, ...]) -> None:
    try:
        if words:
            between.measure(found, words, mode, lambda told: _print(TOLD + told))
        else:
            _measure(found, mode)
    except Exception as error:
        found["errors"][str(found.get("step"))] = f"{type(error).__name__}: {error}"


def _measure(found: dict[str, Any], mode: str) -> None:
    found["step"] = "host"
    found["host"] = host.host()
    log = host.kernel_log()
    found["xids"] = None if log is None else host.xids(log)
    found["step"] = "driver"
    xml, lent = driver.ask("-q", "-x"), _lent()
    found["gpus"], places = driver.inventory(xml, lent), driver.places(xml, lent)
    found["links"] = driver.links(_or_empty("topo", "-m"), _or_empty("nvlink", "-s"), places)
    found["step"] = "torch"
    began = time.monotonic()
    torch = _watched(found, _torch)
    if torch is None:
        cuda.measure(found)
        return
    found["torch"] = {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "import_s": round(time.monotonic() - began, 1),
    }
    bench = tensor.Bench(torch, found)
    bench.quick(lambda: _note_load(found))
    if mode == "full":
        bench.step("soak", lambda: bench.soak(SOAK_S, lambda: _note_load(found)))
    found["step"] = "driver after"
    for before, after in zip(found["gpus"], _gpus()):
        before["ecc_uncorrected"] = after.get("ecc_uncorrected")


def _lent() -> tuple[str, ...]:
    return driver.lent(os.environ.get("CUDA_VISIBLE_DEVICES", ""))


def _gpus() -> list[dict[str, Any]]:
    """What the driver says now of the cards that are to be looked at."""
    return driver.inventory(driver.ask("-q", "-x"), _lent())


def _torch() -> Any:
    """PyTorch if it is here and sees a GPU; None otherwise."""
    try:
        torch = importlib.import_module("torch")
        return torch if torch.cuda.is_available() else None
    except Exception:
        return None


def _watched(found: dict[str, Any], work: Callable[[], Any]) -> Any:
    """The result of the work, during which this process leaves the GPUs alone: what keeps them busy
    meanwhile is somebody else.
    """
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(work()), daemon=True)
    thread.start()
    looks = 0
    # `torch.cuda.is_available` starts nothing on a GPU.
    while looks < 2 or thread.is_alive():
        looks += 1
        for before, now in zip(found["gpus"], _gpus()):
            for name in ("busy_percent", "used_mib"):
                before[name] = max(before.get(name) or 0.0, now.get(name) or 0.0)
            known = {each["pid"] for each in before["processes"]}
            before["processes"] += [each for each in now["processes"] if each["pid"] not in known]
        time.sleep(WATCH_S)
    return result[0] if result else None


def _note_load(found: dict[str, Any]) -> None:
    """What the driver says while the GPUs compute: the link is at its speed then, and what slows
    the card shows. The worst of several looks stays.
    """
    for before, now in zip(found["gpus"], _gpus()):
        known = before.setdefault("loaded", {"slowed": []})
        known["slowed"] = sorted({*known["slowed"], *now["slowed"]})
        for name, worst in (
            ("pcie_gen", max),
            ("pcie_width", max),
            ("clock_mhz", min),
            ("power_w", max),
            ("temperature_c", max),
        ):
            if now.get(name) is not None:
                known[name] = worst(known.get(name, now[name]), now[name])


def _or_empty(*words: str) -> str:
    try:
        return driver.ask(*words)
    except OSError:
        return ""
