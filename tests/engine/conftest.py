"""The engine tests' fixtures: fake clouds, the rehearsal clouds, and the Clore market."""

from tests.engine.cases import lab
from tests.engine.test_clore import market
from tests.engine.test_workloads import rig
from tests.unit.aws.rig import rig as aws_rig
from tests.unit.workload_rig import machine

__all__ = ["aws_rig", "lab", "machine", "market", "rig"]
