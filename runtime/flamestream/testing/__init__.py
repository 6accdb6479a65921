"""The test kit, public: what a user needs to test a graph, a source or a sink the way the engine itself is
tested.

| to                                                     | use                                              |
|--------------------------------------------------------|--------------------------------------------------|
| check a graph on drawn input and schedules             | `check(graph, clicks=strategy)`                  |
| know what a graph means                                | `outputs(graph, ("clicks", click), ...)`         |
| run a whole job in a false world, with faults, by seed | `simulate(seed)`, `swarm(seeds, processes)`      |
| know its latency there, by what passes cost            | `simulate(seed, timing=Timing(charge, taken))`   |
| judge a recorded history                               | `audit`                                          |
| give the functions of calls clients of its own         | `clients(http=..., postgres=..., redis=...)`     |
| prove a sink or a source of one's own                  | `consumer_contract`, `producer_contract`, and    |
|                                                        | their outages (docs/reference/connectors.md)     |

What is imported here is the simulator's face; the rest is imported by module.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from flamestream.lists import outputs
    from flamestream.simulation.simulator import Charge, Result, SimulationFailure, Timing, Variant, simulate
    from flamestream.simulation.swarm import SwarmResult, swarm
    from flamestream.testing.given_clients import GivenClients, clients
    from flamestream.testing.graph_check import CheckFailed, check

__all__ = [
    "Charge",
    "CheckFailed",
    "GivenClients",
    "Result",
    "SimulationFailure",
    "SwarmResult",
    "Timing",
    "Variant",
    "check",
    "clients",
    "outputs",
    "simulate",
    "swarm",
]
_SIMULATOR: Final = ("Charge", "Result", "SimulationFailure", "Timing", "Variant", "simulate")
_ELSEWHERE: Final = {
    "outputs": "flamestream.lists",
    **dict.fromkeys(_SIMULATOR, "flamestream.simulation.simulator"),
    **dict.fromkeys(("SwarmResult", "swarm"), "flamestream.simulation.swarm"),
    **dict.fromkeys(("GivenClients", "clients"), "flamestream.testing.given_clients"),
    **dict.fromkeys(("CheckFailed", "check"), "flamestream.testing.graph_check"),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: an audit needs modules of this folder, and never the simulator."""
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
