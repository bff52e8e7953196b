"""The network between a cluster's nodes, as programs on a machine reach it: NCCL's plugin and the
devices.

Owns fabric.sh. Where the plugins lie: AWS, "Get started with EFA and NCCL" (aws-ofi-nccl comes with
the EFA installer since 1.38, below /opt/amazon/ofi-nccl, libfabric below /opt/amazon/efa) and
Google, "Run NCCL on Compute Engine instances" (gIB: /usr/local/gib, its script for the variables,
lib64 on the library path), both read 2026-11-29.
"""

from __future__ import annotations

from providers.model import shell


def functions() -> str:
    """Shell text that defines `use_fabric`, for sh."""
    return shell.text_of(__file__, "fabric").rest
