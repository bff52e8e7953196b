"""What several unit tests share: the rehearsed market, and a machine that runs start scripts."""

from tests.unit.hosting_rig import market_now
from tests.unit.workload_rig import machine

__all__ = ["machine", "market_now"]
