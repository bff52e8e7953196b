"""What carries the data between the nodes of one cluster: as a plan promises it, and as acceptance
looks for it. Pure.
"""

from __future__ import annotations

from typing import NamedTuple


class Fabric(NamedTuple):
    """The network beside TCP that a machine type has between its nodes.

    Without a `name` nobody says whether there is one, and `missing` why. `gbit_s` is one node's
    rate in one direction; 0 where no figure is known. Else `missing` says why it is not there in
    this case, and `needs` what an image of the user's own must bring for it.
    """

    name: str = ""
    gbit_s: int = 0
    missing: str = ""
    needs: str = ""

    @property
    def promised(self) -> bool:
        """True where it is known, and everything that it needs is ours to bring."""
        return bool(self.name) and not (self.missing or self.needs)

    def __str__(self) -> str:
        if not self.name:
            return (
                f"not known: {self.missing}"
                if self.missing
                else "not known; `gpus accept` measures it"
            )
        if self.missing:
            return f"TCP only: {self.missing}"
        rate = f" {self.gbit_s} Gbit/s" if self.gbit_s else ""
        needs = f", if your image has {self.needs}" if self.needs else ""
        return f"{self.name}{rate}{needs}"


TCP_ONLY = "TCP only"
"""Between nodes of a machine type without such a network."""


def between_nodes(fabric: Fabric | None) -> str:
    """The line of a plan."""
    return f"between nodes: {fabric or TCP_ONLY}"
