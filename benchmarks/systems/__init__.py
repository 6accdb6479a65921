"""The systems that the benchmarks compare, by name."""

from systems.base import System
from systems.bytewax import Bytewax
from systems.flink import Flink
from systems.ours import Ours
from systems.pathway import Pathway
from systems.plain import Plain
from systems.pyflink import PyFlink
from systems.quix import Quix
from systems.spark import Spark

_ALL: tuple[System, ...] = (Ours(), Flink(), Plain(), Spark(), Bytewax(), Pathway(), Quix(), PyFlink())
SYSTEMS = {system.name: system for system in _ALL}
