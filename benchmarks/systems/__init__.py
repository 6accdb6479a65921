"""The systems that the benchmarks compare, by name."""

from systems.base import System
from systems.flink import Flink
from systems.ours import Ours
from systems.plain import Plain

SYSTEMS: dict[str, System] = {system.name: system for system in (Ours(), Flink(), Plain())}
