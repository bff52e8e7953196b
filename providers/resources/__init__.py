"""The Pulumi resources that programs use: `GpuCluster`, `GpuVolume`, `Ownership`,
`ManagedNetwork`, and `declare()` for a stack that is all configuration.

Must not import the planner or pydantic: the plugin does that work, and every preview pays for this
import.
"""

from providers.resources.cluster import GpuCluster
from providers.resources.network import ManagedNetwork
from providers.resources.ownership import Ownership
from providers.resources.stack import declare
from providers.resources.volume import GpuVolume

__all__ = ["GpuCluster", "GpuVolume", "ManagedNetwork", "Ownership", "declare"]
