"""Pathway: Python functions in a Rust engine, one process (peers/pathway_job.py)."""

from systems import environments
from systems.base import NONE, Cell, Command, Places, Setting, System
from systems.plain import COLLECTOR, PEERS


class Pathway(System):
    """Without persistence; with it, the free edition promises at least once, which is not measured here."""

    name = "pathway"
    form = "lines"
    guarantees = (NONE,)
    pace = 100.0
    settles = 0.0

    def prepare(self) -> None:
        """Its packages."""
        environments.make("pathway")

    def versions(self) -> dict[str, str]:
        return {"pathway": environments.pinned("pathway", "pathway")}

    def settings(self, cell: Cell) -> list[Setting]:
        return [
            Setting(
                "autocommit_duration_ms",
                _commit(cell),
                "a batch a document for latency; larger batches at full rate",
            ),
            Setting("threads", "1", "its default; functions in Python share an interpreter's lock"),
            COLLECTOR,
            Setting("monitoring_level", "NONE", "no dashboard"),
        ]

    def command(self, cell: Cell, places: Places) -> Command:
        job = [places.source, places.sink, _commit(cell)]
        return Command(
            [environments.python_of("pathway"), str(PEERS / "pathway_job.py"), *job], {"PATHWAY_THREADS": "1"}
        )


def _commit(cell: Cell) -> str:
    return "1" if cell.rate else "100"
