"""Latency of each record through kills of a process that works, ours beside Flink's, both exactly once.

    python benchmarks kills                                  # both: three minutes
    python benchmarks report --figure kills --results benchmarks/results/kills.jsonl --out docs/figures

The job (peers/flink/Ledger.java, jobs/ledger_graphs.py) keeps accounts: a result for each record. Records are
written at one rate to one topic of one broker, and a consumer stamps each result when it may read it. A latency
is from when its record was due. Lost and doubled are counted over the whole run.
"""

import argparse
import tempfile
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition
from figures.histories import drawn
from harness.drive import machine, noise
from harness.kafka_outside import COMMON
from harness.report import CACHE
from harness.rows import keep
from systems.base import EXACTLY_ONCE, Failed, Places
from systems.flink import Flink

from kills.sides import SIDES, Side
from support.kafka_broker import Broker

OUT: Final = CACHE / "kills.jsonl"
KILLS: Final = (15.0, 35.0, 55.0)
"""Seconds behind the beginning."""
SECONDS: Final = 70.0
STARTED_WITHIN: Final = 120.0
ENDED_WITHIN: Final = 60.0
WARM_UP: Final = 10.0


class Reader(threading.Thread):
    """The number of each record that has a result, and when that could be read."""

    def __init__(self, places: Places, isolation: str) -> None:
        super().__init__(daemon=True)
        own = {"group.id": "kills", "isolation.level": isolation, "enable.auto.commit": False}
        self._consumer = Consumer({"bootstrap.servers": places.brokers, **own, **COMMON})
        self._consumer.assign([TopicPartition(places.sink, 0, 0)])
        self.found: list[tuple[float, int]] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.is_set():
            if (message := self._consumer.poll(0.1)) is None:
                continue
            messages, now = [message, *self._consumer.consume(1000, 0)], time.monotonic()
            values = [msgspec.json.decode(each.value() or b"") for each in messages if not each.error()]
            self.found += [(now, int(value["id"])) for value in values]
        self._consumer.close()


class Writer:
    """Records "id user cents", at their pace."""

    def __init__(self, places: Places, rate: float) -> None:
        self._producer = Producer(
            {"bootstrap.servers": places.brokers, "linger.ms": 0, "acks": "all", **COMMON}
        )
        self._topic, self.rate, self._rng = places.source, rate, Random(1)
        self.due: list[float] = []

    def until(self, end: float) -> None:
        """All that is due before then."""
        begin, first = time.monotonic(), len(self.due)
        while (due := begin + (len(self.due) - first) / self.rate) < end:
            time.sleep(max(0.0, due - time.monotonic()))
            user, cents = drawn(self._rng)
            self._producer.produce(self._topic, f"{len(self.due)} {user} {cents}", key=user)
            self._producer.poll(0)
            self.due.append(due)
        self._producer.flush()


def through(side: Side, writer: Writer, reader: Reader) -> tuple[float, list[float]]:
    """When the measured part began, and the kills. Raises Failed."""
    deadline = time.monotonic() + STARTED_WITHIN
    while not reader.found:
        writer.until(time.monotonic() + 1)
        if time.monotonic() > deadline or not side.up:
            raise Failed(f"no result came:\n{side.log}")
    side.stand_by()
    writer.until(time.monotonic() + WARM_UP)
    begin, kills = time.monotonic(), list[float]()
    for kill in KILLS:
        writer.until(begin + kill)
        kills.append(time.monotonic())
        threading.Thread(target=side.kill).start()
    writer.until(begin + SECONDS)
    deadline = time.monotonic() + ENDED_WITHIN
    while len({number for _, number in reader.found}) < len(writer.due):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return begin, kills


def measured(name: str, broker: Broker, folder: Path, rate: float) -> dict[str, Any]:
    """The row of a system. Raises Failed."""
    begins, isolation = SIDES[name]
    places = Places(broker.topic(1), broker.topic(1), folder, broker.address)
    reader, writer = Reader(places, isolation), Writer(places, rate)
    reader.start()
    side = begins(places)
    try:
        begin, kills = through(side, writer, reader)
    finally:
        side.stop()
        reader.stopped.set()
        reader.join()
    return {"system": name, "guarantee": EXACTLY_ONCE, "rate": rate} | found_of(
        writer.due, reader.found, begin, kills
    )


def found_of(
    due: list[float], found: list[tuple[float, int]], begin: float, kills: list[float]
) -> dict[str, Any]:
    """Latencies of what was due from `begin` on, the gap of each kill, and what is lost or doubled. `found`: when
    the result of which record was seen."""
    first: dict[int, float] = {}
    for when, number in found:
        first.setdefault(number, when)
    times = Counter(number for _, number in found)
    points = [
        [round(due[number] - begin, 2), round((when - due[number]) * 1e3, 2)]
        for number, when in first.items()
        if due[number] >= begin
    ]
    ends = [*kills[1:], begin + SECONDS]
    seen = [when for when, _ in found]
    return {
        "points": points,
        "kills": [
            {
                "at_s": round(kill - begin, 1),
                "gap_ms": round(max(b - a for a, b in pairwise(seen) if kill < b <= end) * 1e3),
            }
            for kill, end in zip(kills, ends, strict=True)
        ],
        "records": len(due), "lost": len(due) - len(first), "doubled": sum(times.values()) - len(times),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SIDES))
    parser.add_argument("--rate", type=float, default=100.0, help="records a second")
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON, which are added")
    options = parser.parse_args()
    flink = Flink()
    flink.prepare()
    for name in options.systems:
        with tempfile.TemporaryDirectory(prefix="kills-", ignore_cleanup_errors=True) as folder:
            broker, place = Broker(Path(folder) / "kafka"), Path(folder) / name
            place.mkdir()
            try:
                broker.start()
                before = noise()
                row = measured(name, broker, place, options.rate)
            finally:
                broker.kill()
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        about = {"versions": flink.versions(), "machine": machine(), "noise": before, "when": when}
        keep(options.out, {"kind": "kills"} | row | about)
        print(name, row["kills"], f"{row['lost']} lost, {row['doubled']} doubled", flush=True)


if __name__ == "__main__":
    main()
