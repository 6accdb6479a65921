"""Quix Streams: Python between Kafka topics, with Kafka's transactions for exactly once
(peers/quix_job.py)."""

from systems import environments
from systems.base import AT_LEAST_ONCE, EXACTLY_ONCE, Cell, Command, Places, Setting, System
from systems.plain import COLLECTOR, PEERS


class Quix(System):
    """Its figures hold Kafka's own time: three topics on the way, and the broker on the same cores."""

    name = "quix"
    form = "kafka"
    guarantees = (AT_LEAST_ONCE, EXACTLY_ONCE)
    pace = 50.0
    settles = 0.0

    def prepare(self) -> None:
        """Its packages; the broker comes with the run (topics.py)."""
        environments.make("quix")

    def versions(self) -> dict[str, str]:
        return {"quixstreams": environments.pinned("quix", "quixstreams"), "broker": "4.3.1"}

    def settings(self, cell: Cell) -> list[Setting]:
        return [
            Setting("processing_guarantee", cell.guarantee, "asked for by the cell"),
            _commits(cell),
            Setting("processes", str(cell.workers), "one a partition and core"),
            Setting(
                "linger.ms",
                _linger(cell),
                "nothing waits for company, for latency; the client's default at full rate",
            ),
            Setting("fetch.wait.max.ms", "10", "a short wait for a first record"),
            COLLECTOR,
            Setting("state", "an entry a posting", "a list would be written whole for each posting"),
        ]

    def command(self, cell: Cell, places: Places) -> Command:
        job = [
            places.brokers,
            places.source,
            places.sink,
            places.group,
            cell.guarantee,
            f"{cell.interval_ms / 1000:g}",
            str(cell.workers),
        ]
        return Command(
            [
                environments.python_of("quix"),
                str(PEERS / "quix_job.py"),
                *job,
                str(places.folder),
                _linger(cell),
            ]
        )


def _commits(cell: Cell) -> Setting:
    transaction = "its output waits for a transaction's end; with 1 s it took three times as long"
    reason = transaction if cell.guarantee == EXACTLY_ONCE else "asked for by the cell"
    return Setting("commit_interval", f"{cell.interval_ms / 1000:g} s", reason)


def _linger(cell: Cell) -> str:
    return "0" if cell.rate else "5"
