"""Trains a small language model over bytes with PyTorch's DistributedDataParallel: what the stack
`train-ddp-2x8` runs, and a start for one's own.

Started by torchrun, on any number of machines and GPUs, or on processors. The text is what `--data`
holds, without it the sources of Python itself, so that nothing is downloaded. Rank 0 saves to
`--out` every so many steps; with `--resume` the run goes on from there: same data, same order, and
whoever starts it needs no other machine to have a copy. Must not import the product: it is sent to
the machines alone.
"""

from __future__ import annotations

import argparse
import os
import random
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHECKPOINT = "checkpoint.pt"
HELD_BACK = 10
"""Every tenth file is for validation."""


class Place(NamedTuple):
    """Which of all processes this is, as torchrun says."""

    rank: int
    size: int
    local: int

    @classmethod
    def found(cls) -> Place:
        """From the environment; alone where there is none."""
        return cls(
            *(
                int(os.environ.get(name, default))
                for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))
            )
        )


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(description="Trains a small language model over bytes.")
    made.add_argument(
        "--out", type=Path, default=Path("out"), help="where checkpoints go (default: %(default)s)"
    )
    made.add_argument(
        "--resume", type=Path, help="go on from the checkpoint in this folder, if one is there"
    )
    made.add_argument(
        "--data",
        type=Path,
        default=Path(sysconfig.get_paths()["stdlib"]),
        help="a folder of text (default: Python's own sources)",
    )
    made.add_argument(
        "--suffix", default=".py", help="of its files, those that end so (default: %(default)s)"
    )
    made.add_argument("--epochs", type=int, default=1)
    made.add_argument(
        "--steps",
        type=int,
        default=500,
        help="of all processes together, an epoch (default: %(default)s)",
    )
    made.add_argument(
        "--batch",
        type=int,
        default=32,
        help="sequences for each process and step (default: %(default)s)",
    )
    made.add_argument(
        "--context", type=int, default=256, help="bytes in a sequence (default: %(default)s)"
    )
    made.add_argument("--width", type=int, default=256)
    made.add_argument("--layers", type=int, default=4)
    made.add_argument(
        "--rate", type=float, default=3e-4, help="learning rate (default: %(default)s)"
    )
    made.add_argument("--save-every", type=int, default=100, metavar="STEPS")
    made.add_argument("--seed", type=int, default=1)
    return made


def texts(folder: Path, suffix: str) -> tuple[bytes, bytes]:
    """(to train on, to validate with): the files in the folder itself, in the order of their names.
    Raises SystemExit for none.
    """
    files = [path.read_bytes() for path in sorted(folder.glob(f"*{suffix}")) if path.is_file()]
    kept = [content for index, content in enumerate(files) if index % HELD_BACK]
    if not kept:
        raise SystemExit(
            f"--data: wanted two or more files that end in {suffix} in {folder}, found {len(files)}"
        )
    return b"\n".join(kept), b"\n".join(files[::HELD_BACK])


def starts(length: int, context: int, batch: int, step: int, place: Place, seed: int) -> list[int]:
    """Where the sequences of this process begin at this step. The same for the same step, however
    often it is started; others' differ.
    """
    if length <= context + 1:
        raise SystemExit(
            f"--context: wanted fewer than the {length} bytes of text, found {context}"
        )
    drawn = random.Random(f"{seed} {step} {place.rank}")  # noqa: S311 - a draw, no secret
    return [drawn.randrange(length - context - 1) for _ in range(batch)]


def left(done: int, epochs: int, steps: int) -> Iterator[tuple[int, int]]:
    """(epoch, step) of everything that is still to do after `done` steps of the whole run."""
    for step in range(done, epochs * steps):
        yield step // steps, step


def newest(folder: Path | None) -> Path | None:
    """The checkpoint in a folder, None where there is none. One that was cut short while it was
    written does not bear the name.
    """
    found = None if folder is None else folder / CHECKPOINT
    return found if found is not None and found.is_file() else None


def save(content: dict[str, Any], folder: Path, write: Any) -> Path:
    """Writes it beside the previous one, and puts it in its place in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{CHECKPOINT}.partial"
    write(content, partial)
    partial.replace(folder / CHECKPOINT)
    return folder / CHECKPOINT


def _model(width: int, layers: int, context: int) -> Any:
    import torch
    from torch import nn

    class Model(nn.Module):
        """A decoder over bytes."""

        def __init__(self) -> None:
            super().__init__()
            self.bytes = nn.Embedding(256, width)
            self.places = nn.Embedding(context, width)
            layer = nn.TransformerEncoderLayer(
                width,
                max(1, width // 64),
                4 * width,
                dropout=0.0,
                batch_first=True,
                norm_first=True,
            )
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.out = nn.Linear(width, 256)

        def forward(self, text: Any) -> Any:
            length = text.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(length, device=text.device)
            hidden = self.bytes(text) + self.places(torch.arange(length, device=text.device))
            return self.out(self.layers(hidden, mask=mask, is_causal=True))

    return Model()


def train(options: argparse.Namespace, place: Place) -> float:
    """The validation loss, in nats a byte, once everything asked for is done. Reads the data,
    writes checkpoints.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    gpu = torch.cuda.is_available()
    # More processes than GPUs share them, which NCCL refuses.
    alone = gpu and torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    device = (
        torch.device("cuda", place.local % torch.cuda.device_count())
        if gpu
        else torch.device("cpu")
    )
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if alone else "gloo", rank=place.rank, world_size=place.size)
    torch.manual_seed(options.seed)
    data, held_back = (
        torch.frombuffer(bytearray(text), dtype=torch.uint8)
        for text in texts(options.data, options.suffix)
    )

    model = _model(options.width, options.layers, options.context).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
    found = newest(options.resume) if place.rank == 0 else None
    # Only the first machine has a checkpoint: what it holds is told to all.
    told: list[Any] = [
        torch.load(found, map_location="cpu", weights_only=True) if found is not None else None
    ]
    dist.broadcast_object_list(told, src=0)
    done = 0
    if told[0] is not None:
        model.load_state_dict(told[0]["model"])
        optimizer.load_state_dict(told[0]["optimizer"])
        done = int(told[0]["steps"])
    spread = DistributedDataParallel(model, device_ids=[device.index] if gpu else None)
    if place.rank == 0:
        where = f"{place.size} processes, {'gpu' if gpu else 'cpu'}, {dist.get_backend()}"
        print(
            f"train: begins at step {done} of {options.epochs * options.steps} ({where})",
            flush=True,
        )

    def loss_of(network: Any, text: Any, begins: Sequence[int]) -> Any:
        rows = torch.stack([text[start : start + options.context + 1] for start in begins]).to(
            device, torch.long
        )
        with torch.autocast(device.type, torch.bfloat16, enabled=gpu):
            logits = network(rows[:, :-1])
        return cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())

    def saved(steps: int) -> None:
        if place.rank == 0:
            content = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "steps": steps,
            }
            print(
                f"train: saved step {steps} to {save(content, options.out, torch.save)}", flush=True
            )

    began, fresh = time.monotonic(), 0
    for epoch, step in left(done, options.epochs, options.steps):
        loss = loss_of(
            spread,
            data,
            starts(len(data), options.context, options.batch, step, place, options.seed),
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        fresh += 1
        if (step + 1) % options.save_every == 0:
            if place.rank == 0:
                speed = (
                    fresh
                    * options.batch
                    * options.context
                    * place.size
                    / (time.monotonic() - began)
                )
                print(
                    f"train: epoch {epoch} step {step + 1} loss {loss.item():.4f}, {speed:,.0f}"
                    " bytes/s",
                    flush=True,
                )
            saved(step + 1)
    if fresh and (options.epochs * options.steps) % options.save_every:
        saved(options.epochs * options.steps)

    model.eval()
    with torch.no_grad():
        begins = starts(len(held_back), options.context, options.batch, -1, place, options.seed)
        total = loss_of(model, held_back, begins).detach()
    dist.all_reduce(total)
    dist.destroy_process_group()
    return float(total) / place.size


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains, and says what came of it; 0."""
    options = parser().parse_args(arguments)
    place = Place.found()
    loss = train(options, place)
    if place.rank == 0:
        print(f"train: done, validation loss {loss:.4f} nats a byte", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
