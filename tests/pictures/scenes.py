"""The two runs that are pictured: a plan, and an `up` past places that are sold out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text

from tests.pictures.terminal import picture, shown
from tests.plugin.conftest import BIN

if TYPE_CHECKING:
    from tests.plugin.conftest import Project

STACK = "train-h100x8"
_TOKEN = re.compile(r"-[0-9a-f]{8}-(?=\d)")


def drawn(project: Project) -> dict[str, str]:
    """Every picture by the name of its file, from runs of a project where nothing ran before."""
    folder = project.folder
    plan = shown([str(BIN / "gpus"), "plan", "-s", STACK], folder, project.env)
    up = shown(
        project.command("up", "-s", STACK, "--yes", "--skip-preview", "--color", "always"),
        folder,
        project.env,
    )
    project.destroy()
    return {
        "preview.svg": picture(
            "preview", "what would be bought", f"$ gpus plan -s {STACK}\n{plan.rstrip()}"
        ),
        "fallback.svg": picture(
            "fallback", "past what is sold out", f"$ pulumi up -s {STACK}\n{_steady(up)}"
        ),
    }


def _steady(text: str) -> str:
    """What `up` says, but for what differs from run to run: rows of progress, how long it took, and
    the random part of a machine's name.
    """
    plain = [Text.from_ansi(line).plain for line in text.splitlines()]
    kept = [
        line
        for line, bare in zip(text.splitlines(), plain, strict=True)
        if not bare.startswith((" + ", "@ updating", "Duration:"))
    ]
    return re.sub(r"\n{3,}", "\n\n", _TOKEN.sub("-…-", "\n".join(kept))).strip()
