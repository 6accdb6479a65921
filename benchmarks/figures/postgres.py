"""The PostgreSQL sink beside the raw floor, in one run: a bare commit, COPY and INSERT of the same rows,
without FlameStream.

    python benchmarks postgres                       # a server of its own, with fsync, in a temporary folder
    python benchmarks postgres --dsn postgresql://me@host/db
    python benchmarks postgres --json

Latency: one call is in flight at a time, from `deliver` to the acknowledgement. In turns with it, on the same
server: "bare" is an INSERT of one row through the same driver, so one commit; "copy" is a COPY of as many
rows and its commit, "arrays" the cheapest statement that was found for them (an INSERT from an array for each
column, replacing by key if the sink does), without a memory of what was delivered. Throughput: deliveries of
4,096 rows over 128 slots, as a backlog makes them.
"""

import argparse
import contextlib
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
from harness.job import noise
from workload import Change

from flamestream.connectors import sinks
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed, SinkOpened
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.payload import encode_items
from flamestream.testing.port_driver import PortDriver

FENCE = Fence(Attempt(1), LayoutVersion(1))
SINK = SinkName("index")
COLUMNS = ["word", "document", "positions", "documents"]
TYPES = "word text, document bigint, positions int[], documents bigint"


class Sink:
    """The adapter, driven by hand."""

    def __init__(self, dsn: str, table: str, key: list[str], slots: int) -> None:
        self.driver = PortDriver()
        spec = {
            "postgres": {"dsn": dsn, "table": table, "columns": COLUMNS, "key": key, "state": "bench_slots"}
        }
        self.consumer = sinks.build(
            spec, SINK, WorkerId("w"), f"bench-{table}", self.driver.post, self.driver.reactor
        )
        self.consumer.open(OpenSink(FENCE, SINK, [Slot(slot) for slot in range(slots)]))
        self.driver.take(SinkOpened)
        self._sequences = dict.fromkeys(range(slots), 0)
        self._number = 0

    def bundles(self, rows: int, slots: int) -> tuple[Bundle, ...]:
        """The next bundles: `rows` changes over the first `slots` slots."""
        made = []
        for slot in range(slots):
            self._sequences[slot] += 1
            sequence = self._sequences[slot]
            items = [
                (
                    sequence.to_bytes(9, "big") + bytes([n % 128]),
                    Change(f"word{slot}x{n}", sequence, (n, n + 7), sequence),
                )
                for n in range(slot, rows, slots)
            ]
            made.append(Bundle(Slot(slot), SequenceNumber(sequence), items[-1][0], encode_items(items)))
        return tuple(made)

    def deliver(self, bundles: tuple[Bundle, ...]) -> None:
        """And wait for the acknowledgement."""
        self._number += 1
        events = self.driver.events
        self.consumer.deliver(Deliver(FENCE, SINK, self._number, bundles))
        while not events:
            self.driver.reactor.turn()
        assert type(events[0]) is BundlesAcknowledged, (
            events[0].message if isinstance(events[0], SinkFailed) else events
        )
        events.clear()

    def close(self) -> None:
        self.driver.at_exit.append(self.consumer.close)
        self.driver.__exit__()


def latency(dsn: str, rounds: int, rows: int, slots: int, key: list[str]) -> dict[str, Any]:
    """p50 and p99 of a delivery, and of a bare commit beside it."""
    with (
        table(dsn, key) as name,
        contextlib.closing(Sink(dsn, name, key, slots)) as sink,
        psycopg.connect(dsn, autocommit=True) as raw,
    ):
        raw.execute("CREATE TABLE bench_bare (n bigint, text text)")
        raw.execute(f"CREATE TABLE bench_copy (LIKE {name} INCLUDING ALL)")
        raw.execute(f"CREATE TABLE bench_arrays (LIKE {name} INCLUDING ALL)")
        raw.execute("SET plan_cache_mode = force_generic_plan")
        ours: list[float] = []
        bare: list[float] = []
        copied: list[float] = []
        arrays: list[float] = []
        for number in range(rounds):
            insert = partial(
                raw.execute, "INSERT INTO bench_bare VALUES (%s, %s)", (number, "x" * 40), prepare=True
            )
            bare.append(timed(insert))
            plain = [(f"word{n}", number, [n, n + 7], number) for n in range(rows)]
            copied.append(timed(partial(_copy, raw, "bench_copy", plain)))
            arrays.append(timed(partial(_arrays, raw, "bench_arrays", plain, key)))
            ours.append(timed(partial(sink.deliver, sink.bundles(rows, slots))))
    warm = rounds // 10
    of_sink: dict[str, Any] = {"rows": rows, "slots": slots, "key": bool(key)} | quantiles(
        "sink", ours[warm:]
    )
    floors = (
        quantiles("bare", bare[warm:]) | quantiles("copy", copied[warm:]) | quantiles("arrays", arrays[warm:])
    )
    return of_sink | floors | {"sink_per_bare": round(of_sink["sink_p50_ms"] / floors["bare_p50_ms"], 2)}


def throughput(dsn: str, deliveries: int, rows: int, slots: int, key: list[str]) -> dict[str, Any]:
    """Rows a second through the sink, and through COPY and one multi-row INSERT a commit without it."""
    with table(dsn, key) as name, contextlib.closing(Sink(dsn, name, key, slots)) as sink:
        made = [sink.bundles(rows, slots) for _ in range(deliveries)]
        took = sum(timed(partial(sink.deliver, bundles)) for bundles in made)
    plain = [[(f"word{n}", d, [n, n + 7], d) for n in range(rows)] for d in range(deliveries)]
    total = deliveries * rows
    return {
        "rows": rows,
        "key": bool(key),
        "sink_rows_per_s": round(total / took),
        "copy_rows_per_s": round(total / _raw(dsn, key, plain, _copy)),
        "insert_rows_per_s": round(total / _raw(dsn, key, plain, _insert)),
    }


Rows = list[tuple[str, int, list[int], int]]


def _raw(dsn: str, key: list[str], batches: list[Rows], write: Callable[[Any, str, Rows], None]) -> float:
    with table(dsn, key) as name, psycopg.connect(dsn) as raw:

        def all_of_them() -> None:
            for batch in batches:
                write(raw, name, batch)
                raw.commit()

        return timed(all_of_them)


def _copy(raw: Any, name: str, rows: Rows) -> None:
    with raw.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _arrays(raw: Any, name: str, rows: Rows, key: list[str]) -> None:
    words, documents, positions, totals = zip(*rows, strict=True)
    texts = ["{" + ",".join(map(str, places)) + "}" for places in positions]
    replace = (
        f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET positions = excluded.positions, documents = "
        "excluded.documents"
        if key
        else ""
    )
    raw.execute(
        f"INSERT INTO {name} SELECT w, d, p::int[], n "
        f"FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::bigint[]) AS r (w, d, p, n) {replace}",
        (list(words), list(documents), texts, list(totals)),
        prepare=True,
    )


def _insert(raw: Any, name: str, rows: Rows) -> None:
    with raw.cursor() as cursor:
        for start in range(0, len(rows), 1024):
            part = rows[start : start + 1024]
            values = ",".join(["(%s,%s,%s::int[],%s)"] * len(part))
            cursor.execute(f"INSERT INTO {name} VALUES {values}", list(itertools.chain(*part)))


@contextlib.contextmanager
def table(dsn: str, key: list[str]) -> Iterator[str]:
    """An empty one for a while."""
    name = "bench_rows"
    unique = f", PRIMARY KEY ({', '.join(key)})" if key else ""
    with psycopg.connect(dsn, autocommit=True) as raw:
        raw.execute(
            f"DROP TABLE IF EXISTS {name}, bench_slots, bench_slots_openings, bench_slots_log, bench_bare, "
            "bench_copy, bench_arrays"
        )
        raw.execute(f"CREATE TABLE {name} ({TYPES}{unique})")
        try:
            yield name
        finally:
            raw.execute(
                f"DROP TABLE IF EXISTS {name}, bench_slots, bench_slots_openings, bench_slots_log, "
                "bench_bare, bench_copy, bench_arrays"
            )


def timed(call: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def quantiles(name: str, seconds: list[float]) -> dict[str, float]:
    """In milliseconds."""
    ordered = sorted(seconds)
    return {
        f"{name}_p50_ms": round(statistics.median(ordered) * 1e3, 3),
        f"{name}_p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 3),
    }


@contextlib.contextmanager
def server(dsn: str) -> Iterator[str]:
    """The given one, or one of our own that syncs."""
    if dsn:
        yield dsn
        return
    from support.postgres import postgres

    with postgres(fsync="on", full_page_writes="on", shared_buffers="128MB") as made:
        yield made.dsn


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dsn", default="")
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--deliveries", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    key = ["word", "document"]
    with server(options.dsn) as dsn:
        before = noise()
        rows: list[dict[str, Any]] = []
        turns = [
            partial(latency, dsn, options.rounds, *load)
            for load in ((1, 1, []), (163, 64, []), (163, 64, key))
        ]
        for turn in [
            *turns,
            *(partial(throughput, dsn, options.deliveries, 4096, 128, each) for each in ([], key)),
        ]:
            rows.append(turn())
            print(
                json.dumps(rows[-1] | before)
                if options.json
                else "  ".join(f"{name}={value}" for name, value in rows[-1].items()),
                flush=True,
            )
        print(before, file=sys.stderr)


if __name__ == "__main__":
    main()
