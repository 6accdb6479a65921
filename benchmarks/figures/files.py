"""Files in a folder and in S3: how fast sources read and the rolling sink writes, beside what pyarrow, json,
csv and boto3 need for it.

    python benchmarks files                        # the tables of docs/explanation/performance-of-parts.md
                                                   (about a minute)
    python benchmarks files --rows 20000 --json

The S3 server is a real one on this machine (versitygw, which the tests build once). The floor of a source is
a plain loop that makes the same rows; the floor of a delivery is one boto3 put of the same bytes; the floor
of a file is pyarrow writing the same rows and one put.
"""

import argparse
import csv
import io
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import workload
from harness.job import noise

from flamestream.connectors.files.spec import FilesSpec, reader
from flamestream.connectors.rolling.connector import Rolling
from flamestream.connectors.rolling.opening import FORMAT, Owner
from flamestream.connectors.rolling.parts import part_format
from flamestream.connectors.rolling.writing import Log
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.payload import encode_items, payload_type
from flamestream.store.places import store_from
from support.versitygw import KEY, SECRET, S3Server

BUCKET = "bench"
ITEMS_A_DELIVERY = 200
SLOTS = 128


@payload_type
@dataclass(frozen=True, slots=True)
class BenchRow:
    """A row, typed."""

    document: int
    word: str
    documents: int
    positions: tuple[int, ...] = ()


def made_rows(count: int) -> list[dict[str, Any]]:
    """Rows of a number, a word and some positions."""
    return [
        {"document": n, "word": f"word{n % 977}", "documents": n // 977, "positions": [n % 7, n % 11]}
        for n in range(count)
    ]


# --- sources ------------------------------------------------------------------------------------------------


def encoded(rows: list[dict[str, Any]], form: str) -> bytes:
    """The same rows in a format."""
    if form == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=1 << 16)
        return sink.getvalue()
    if form == "csv":
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(["document", "word", "documents"])
        writer.writerows((row["document"], row["word"], row["documents"]) for row in rows)
        return text.getvalue().encode()
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


FLOORS: dict[str, Callable[[bytes], list[Any]]] = {
    "text": lambda data: data.decode().splitlines(),
    "jsonl": lambda data: [json.loads(line) for line in data.splitlines()],
    "csv": lambda data: list(csv.DictReader(io.StringIO(data.decode()))),
    "parquet": lambda data: pq.read_table(io.BytesIO(data)).to_pylist(),
}


def _count(plainly: Callable[[bytes], Any], data: bytes) -> int:
    return len(plainly(data))


def source_rows(
    folder: Path, url: Callable[[str], str], put: Callable[[str, bytes], None], rows: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """A line of the table for each format and place."""
    for form, plainly in FLOORS.items():
        data = encoded(rows, form)
        (folder / form).mkdir()
        (folder / form / "a").write_bytes(data)
        put(f"{form}/a", data)
        floor = best(partial(_count, plainly, data), len(rows))
        for place, path in (("folder", str(folder / form)), ("S3", url(form))):
            settings: dict[str, Any] = {
                "path": path,
                "format": form,
                **({"records": "lines"} if form == "text" else {}),
            }
            rate = best(partial(read_all, settings), len(rows))
            typed = (
                rate
                if form == "text"
                else best(partial(read_all, {**settings, "type": "BenchRow"}), len(rows))
            )
            yield {
                "source": form,
                "place": place,
                "rows/s": round(rate),
                "typed rows/s": round(typed),
                "floor rows/s": round(floor),
                "MB": round(len(data) / 1e6, 1),
            }


def read_all(settings: dict[str, Any]) -> int:
    source = reader(FilesSpec(**settings), "docs", "spec.sources.docs")
    source.seek({})
    count = 0
    while not source.ended:
        count += sum(len(chunk.payloads) for chunk in source.next(512, 1 << 20))
    return count


def best(run: Callable[[], int], count: int, times: int = 3) -> float:
    """Rows a second of the best of some runs."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        assert run() >= count
        found.append(count / (time.perf_counter() - began))
    return max(found)


# --- the sink -----------------------------------------------------------------------------------------------


class Counted:
    """A store that counts its requests."""

    def __init__(self, store: Any) -> None:
        self._store, self.requests = store, Counter[str]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self._store, name)

        def call(*arguments: Any) -> Any:
            self.requests[name] += 1
            return operation(*arguments)

        return call


def deliveries(count: int) -> list[list[Bundle]]:
    """Change records of the index, so many a delivery, over all slots."""
    sequences = Counter[int]()
    made = []
    for delivery in range(count):
        items: dict[int, list[Any]] = {}
        for i in range(ITEMS_A_DELIVERY):
            n = delivery * ITEMS_A_DELIVERY + i
            meta = n.to_bytes(9, "big")
            items.setdefault(n % SLOTS, []).append(
                (meta, workload.Change(f"word{n % 977}", delivery, (n % 7, n % 11), n // 977))
            )
        sequences.update(items.keys())
        made.append(
            [
                Bundle(Slot(s), SequenceNumber(sequences[s]), found[-1][0], encode_items(found))
                for s, found in items.items()
            ]
        )
    return made


def sink_rows(
    folder: Path, url: Callable[[str], str], calls: list[list[Bundle]], floors: dict[str, float]
) -> Iterator[dict[str, Any]]:
    """A line of the table for each format and place."""
    items = len(calls) * ITEMS_A_DELIVERY
    for form in ("parquet", "jsonl"):
        for place, path in (("folder", str(folder / f"out-{form}")), ("S3", url(f"out-{form}"))):
            store = Counted(store_from(path, create=True))
            settings = Rolling(path=path, format=form, type="Change")
            fence = Fence(Attempt(1), LayoutVersion(1))
            action = OpenSink(fence, SinkName("out"), [Slot(n) for n in range(SLOTS)])
            log = Log(
                store,
                settings,
                part_format(form, "Change", "type"),
                Owner(FORMAT, "job", "out", form, "Change"),
                WorkerId("w"),
                action,
            )
            store.requests.clear()
            times = []
            for number, bundles in enumerate(calls):
                began = time.perf_counter()
                log.deliver(Deliver(fence, SinkName("out"), number, bundles))
                times.append(time.perf_counter() - began)
            began = time.perf_counter()
            log.roll()
            rolled = time.perf_counter() - began
            files = [name for name in store.names("") if name.startswith("part-")]
            yield {
                "sink": form, "place": place, "delivery p50 ms": ms(times),
                "bare put p50 ms": round(floors[place], 2), "delivered items/s": round(items / sum(times)),
                "filed items/s": round(items / rolled), "floor items/s": round(floors[form]),
                "deliveries": len(calls), "files": len(files), "requests": dict(store.requests),
                "MB": round(sum(len(store.get(name)) for name in files) / 1e6, 2),
            }  # fmt: skip


def ms(times: list[float]) -> float:
    return round(statistics.median(times) * 1e3, 2)


def floors_of(folder: Path, client: Any, calls: list[list[Bundle]]) -> dict[str, float]:
    """A bare durable write of a delivery's bytes, and pyarrow or json writing the same rows and one put."""
    body = b"x" * sum(len(bundle.items) for bundle in calls[0])
    count = len(calls)
    puts, writes = [], []
    for n in range(count):
        began = time.perf_counter()
        client.put_object(Bucket=BUCKET, Key=f"floor/{n}", Body=body, IfNoneMatch="*")
        puts.append(time.perf_counter() - began)
        began = time.perf_counter()
        with (folder / f"floor-{n}").open("xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        writes.append(time.perf_counter() - began)
    rows = [
        {"word": f"word{n % 977}", "document": n // 200, "positions": [n % 7, n % 11], "documents": n // 977}
        for n in range(count * 200)
    ]
    found = {"S3": statistics.median(puts) * 1e3, "folder": statistics.median(writes) * 1e3}
    for form in ("parquet", "jsonl"):
        began = time.perf_counter()
        client.put_object(Bucket=BUCKET, Key=f"floor/all.{form}", Body=encoded(rows, form))
        found[form] = len(rows) / (time.perf_counter() - began)
    return found


# --- all of it ----------------------------------------------------------------------------------------------


@contextmanager
def server(folder: Path) -> Iterator[S3Server]:
    os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION="us-east-1")
    found = S3Server(folder)
    found.start()
    found.make_bucket(BUCKET)
    try:
        yield found
    finally:
        found.kill()


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--deliveries", type=int, default=400)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="flamestream-files-") as name,
        server(Path(name) / "server") as s3,
    ):
        folder = Path(name)
        client = boto3.client("s3", endpoint_url=s3.endpoint)

        def show(row: dict[str, Any]) -> None:
            print(
                json.dumps(row) if chosen.json else "  ".join(f"{key}={value}" for key, value in row.items()),
                flush=True,
            )

        def url(prefix: str) -> str:
            return f"s3://{BUCKET}/{prefix}?endpoint={s3.endpoint}"

        show(noise())

        def put(key: str, data: bytes) -> None:
            client.put_object(Bucket=BUCKET, Key=key, Body=data)

        for row in source_rows(folder, url, put, made_rows(chosen.rows)):
            show(row)
        calls = deliveries(chosen.deliveries)
        for row in sink_rows(folder, url, calls, floors_of(folder, client, calls)):
            show(row)
        show(noise())


if __name__ == "__main__":
    main()
