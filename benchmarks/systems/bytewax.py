"""Bytewax: its keyed exchange between processes of Python (peers/bytewax_job.py)."""

from systems import environments
from systems.base import AT_LEAST_ONCE, NONE, Cell, Command, Places, Setting, System
from systems.plain import COLLECTOR, PEERS


class Bytewax(System):
    """With recovery it promises at least once: what was sent since the last epoch is sent again."""

    name = "bytewax"
    form = "lines"
    guarantees = (NONE, AT_LEAST_ONCE)
    pace = None
    settles = 0.0

    def prepare(self) -> None:
        """Its packages."""
        environments.make("bytewax")

    def versions(self) -> dict[str, str]:
        return {"bytewax": environments.pinned("bytewax", "bytewax")}

    def settings(self, cell: Cell) -> list[Setting]:
        settings = [
            Setting(
                "processes",
                str(cell.workers),
                "one worker each: threads of one process would share an interpreter's lock",
            )
        ]
        settings.append(COLLECTOR)
        if cell.guarantee == NONE:
            reason = (
                "its end takes 0.4 s, also without recovery: "
                "252 ms at the 99th percentile with the default of 10 s"
            )
            return [*settings, Setting("epoch_interval", "1 h", reason)]
        return [
            *settings,
            Setting(
                "epoch_interval",
                f"{cell.interval_ms} ms",
                "asked for by the cell: what changed is kept at the end of an epoch",
            ),
            Setting("recovery partitions", str(cell.workers), "one a process, as documented"),
        ]

    def command(self, cell: Cell, places: Places) -> Command:
        recovery = [] if cell.guarantee == NONE else [str(places.folder / "recovery")]
        epoch = "3600000" if cell.guarantee == NONE else str(cell.interval_ms)
        job = [places.source, places.sink, str(cell.workers), epoch]
        return Command([environments.python_of("bytewax"), str(PEERS / "bytewax_job.py"), *job, *recovery])
