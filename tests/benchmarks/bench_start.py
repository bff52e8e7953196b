"""What `import providers` costs over bare Python, and with it what nearly every program uses of it."""

from __future__ import annotations

import sys

from tests.benchmarks.timing import Line, both, side_by_side

IMPORT_LIMIT_S = 0.10


def lines() -> list[Line]:
    """Two imports against an interpreter that does nothing."""
    bare, package, spec = side_by_side(
        [sys.executable, "-c", "pass"],
        [sys.executable, "-c", "import providers"],
        [sys.executable, "-c", "import providers; providers.Cluster(name='ft', gpu='H100:8')"],
    )
    detail = f"bare {both(bare)}; with it {both(package)}"
    return [
        Line(
            "import providers, over bare Python",
            package.p50 - bare.p50,
            IMPORT_LIMIT_S,
            " s",
            detail,
        ),
        Line(
            "  the same and a first Cluster (imports pydantic)",
            spec.p50 - bare.p50,
            None,
            " s",
            both(spec),
        ),
    ]
