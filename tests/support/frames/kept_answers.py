"""A stream that has kept the answers of its calls, and the same job for the DataFrame runners beside it, with
places of its own."""

import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flamestream.connectors import sinks
from flamestream.job.validation import CheckedJob, checked
from flamestream.model import payload as codec
from flamestream.spark.batches.frame_job import frame_job
from flamestream.spark.frames.job import FrameJob
from support.frames.frame_jobs import Site
from support.runs.cli_job import CliJob

ASKING = """
import asyncio, os
import flamestream as fs

@fs.call(concurrency=3)
async def drawn(order: int) -> tuple[int, int, bytes]:
    await asyncio.sleep(0.002)
    return order, 7 * order, os.urandom(8)

@fs.call(concurrency=2, doubt="never")
async def checked(draw: tuple[int, int, bytes]) -> tuple[int, bytes]:
    if draw[0] % 9 == 4:
        raise LookupError(f"nobody knows {draw[0]}")
    return draw[0] % 5, os.urandom(4)

def total(count: int, _: object) -> int:
    return count + 1

graph = fs.Graph("draws")
orders = graph.source("orders", int)
draws = orders.call(drawn, key=lambda order: order % 5, at=lambda draw: draw[1], unit="s", late="1h")
draws.sink("drawn", key=lambda draw: draw[0])
draws.window(fs.tumbling("1m"), key=lambda draw: draw[0] % 2).collect().map(repr).sink("windows", key=len)
sure = draws.call(checked)
sure.reduce(key=lambda pair: pair[0], initial=int, combine=total, emit=lambda n, p: (*p, n)).sink("sure")
"""
CHANCE = """
import random
import flamestream as fs

def tossed(order: int) -> list[tuple[int, float]]:
    return [(order % 7, random.random()) for _ in range(random.randrange(4))]

graph = fs.Graph("tosses")
tosses = graph.source("orders", int).flat_map(tossed)
tosses.sink("drawn", key=lambda toss: toss[0])
sums = tosses.reduce(key=lambda toss: toss[0], initial=float, combine=lambda sum, toss: sum + toss[1])
sums.map(lambda sum: (sum, random.random())).sink("sure", key=lambda pair: pair[0])
"""
SINKS = {ASKING: ("drawn", "windows", "sure"), CHANCE: ("drawn", "sure")}


def stream_of(folder: Path, application: str, orders: int, **spec: Any) -> CliJob:
    """The job, which has not run yet."""
    # a process has one module of a name, and a test run has several applications
    file = folder / f"application_{uuid.uuid4().hex[:8]}.py"
    file.write_text(application)
    (folder / "orders.jsonl").write_text("".join(f"{number}\n" for number in range(orders)))
    names = (*SINKS[application], "dead")
    fields = {
        "guarantee": "strong-productions" if application == CHANCE else "exactly-once",
        "sources": {"orders": {"files": {"path": "orders.jsonl", "format": "jsonl"}}},
        "sinks": {name: {"files": {"path": name, "fsync": False}} for name in names},
        "onError": {"deadLetter": "dead"},
        "journal": {"folder": "journal", "keep": True, "fsync": False},
        "checkpoint": {"interval": "200ms", "store": "store"},
        "workers": {"replicas": 2, "slots": 16},
        "limits": {"runs": 1000},
    }
    return CliJob(folder, file, {**fields, **spec}, spark=False)


def completed_stream(folder: Path, application: str, orders: int = 60) -> CliJob:
    """A stream that has come to its end."""
    stream = stream_of(folder, application, orders)
    stream.start()
    assert stream.end()[1]["outcome"] == "completed", stream.told()
    return stream


def metas_of(job: CliJob) -> dict[str, list[tuple[bytes, bytes]]]:
    """All that its sinks hold, byte for byte."""
    return {
        name: [
            (bytes(meta), codec.encode(payload))
            for meta, _, _, payload in sinks.read({"files": {"path": str(job.path / name)}})
        ]
        for name in job.spec["sinks"]
    }


@dataclass(slots=True)
class Beside(Site):
    """The job of a stream over the input and the journal of that, delivered to this folder."""

    stream: CheckedJob = field(kw_only=True)

    @classmethod
    def of(cls, stream: CliJob, path: Path) -> "Beside":
        its = checked(stream.manifest)
        return cls(path, its.graph, stream=its)

    @property
    def job(self) -> FrameJob:
        job = frame_job(self.stream, takes_answers=True)
        places = {name: {"files": {"path": str(self.path / name), "fsync": False}} for name in job.sinks}
        return replace(job, sinks=places)
