"""The systems that the benchmarks compare, by name."""

from systems.base import EXACTLY_ONCE, System
from systems.bytewax import Bytewax
from systems.flink import Flink, FlinkTail
from systems.ours import Ours
from systems.pathway import Pathway
from systems.plain import Columns, Plain
from systems.pyflink import PyFlink
from systems.quix import Quix
from systems.spark import Spark

OURS = (Ours(), Ours(fsync=False), Ours("ready-made"), Ours("columns"))
_ALL: tuple[System, ...] = (
    *OURS,
    Flink(),
    FlinkTail(),
    Plain(),
    Columns(),
    Spark(),
    Bytewax(),
    Pathway(),
    Quix(),
    PyFlink(),
)
SYSTEMS = {system.name: system for system in _ALL}
OWN_INTERVALS = {(Quix.name, EXACTLY_ONCE): 100}
"""Ms between commits, where a system is better off with them than with those that are asked for."""
SAME_AT_FULL_RATE = frozenset({FlinkTail.name})
"""Those that differ from another one in settings for latency only."""
