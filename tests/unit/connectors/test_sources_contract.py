"""Every source that reads, generates or remembers keeps the producer's contract."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flamestream.connectors import sources
from flamestream.connectors.synthetic.memory import channel_named
from flamestream.model.collections import Map
from flamestream.model.ids import Partition
from flamestream.model.payload import payload_type
from flamestream.model.records import Document
from flamestream.ports import Post, Producer, Reactor
from flamestream.testing.producer_contract import FRONT, PRODUCER_CHECKS, RECORDS, REPLAY_CHECKS, Outside

WORDS = [f"wörd {number}" for number in range(RECORDS)]


def numbered(number: int) -> str:
    return WORDS[number]


@payload_type
@dataclass(frozen=True, slots=True)
class Row:
    n: int
    word: str


ROW = f"{__name__}:Row"
"""Other tests of this process have a Row too."""


class Spec:
    """An outside that is reached by a spec."""

    def __init__(self, spec: dict[str, object], payloads: list[object], partition: str = "") -> None:
        self.spec = spec
        self.payloads = payloads
        self.partition = Partition(partition)

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        return sources.build(self.spec, FRONT, post, reactor, name="docs")


def documents(folder: Path) -> Outside:
    for word in WORDS:
        (folder / f"{word}.txt").write_text(word)
    return Spec({"files": {"path": str(folder)}}, [Document(f"{word}.txt", word) for word in WORDS])


def lines(folder: Path) -> Outside:
    (folder / "a").write_text("\n".join(WORDS[:4]))
    (folder / "b").write_text("")
    (folder / "c").write_text("\r\n".join(WORDS[4:]) + "\r\n")
    return Spec({"files": {"path": str(folder), "records": "lines"}}, list(WORDS))


def followed_lines(folder: Path) -> Outside:
    (folder / "log").write_text("\n".join(WORDS) + "\nincomplete")
    return Spec({"files": {"path": str(folder), "records": "lines", "follow": True}}, list(WORDS), "log")


def json_rows(folder: Path) -> Outside:
    (folder / "a.jsonl").write_text(
        "".join(f'{{"n": {number}, "word": "{word}"}}\n\n' for number, word in enumerate(WORDS[:4]))
    )
    with gzip.open(folder / "b.jsonl.gz", "wt") as packed:
        packed.write(
            "".join(f'{{"n": {number}, "word": "{word}"}}\n' for number, word in enumerate(WORDS[4:], 4))
        )
    return Spec(
        {"files": {"path": str(folder), "format": "jsonl"}},
        [Map({"n": n, "word": word}) for n, word in enumerate(WORDS)],
    )


def csv_rows(folder: Path) -> Outside:
    for name, rows in (("a", range(4)), ("b", range(0)), ("c", range(4, 10))):
        (folder / f"{name}.csv").write_text("n,word\n" + "".join(f'{n},"{WORDS[n]}"\n' for n in rows))
    settings = {"path": str(folder), "format": "csv", "type": ROW}
    return Spec({"files": settings}, [Row(number, word) for number, word in enumerate(WORDS)])


def parquet_rows(folder: Path) -> Outside:
    write_parquet(folder / "b.parquet", 4, 10)
    write_parquet(folder / "a.parquet", 0, 4)
    write_parquet(folder / "ab.parquet", 0, 0)
    return Spec(
        {"files": {"path": str(folder), "format": "parquet", "type": ROW}},
        [Row(n, word) for n, word in enumerate(WORDS)],
    )


def followed_parquet(folder: Path) -> Outside:
    write_parquet(folder / "x.parquet", 0, 10)
    settings = {"path": str(folder), "format": "parquet", "type": ROW, "follow": True}
    return Spec({"files": settings}, [Row(number, word) for number, word in enumerate(WORDS)], "1 x.parquet")


def followed_csv(folder: Path) -> Outside:
    (folder / "log").write_text(
        "n,word\r\n" + "".join(f"{n},{word}\r\n" for n, word in enumerate(WORDS)) + "11,inco"
    )
    return Spec(
        {"files": {"path": str(folder), "format": "csv", "type": ROW, "follow": True}},
        [Row(*r) for r in enumerate(WORDS)],
        "log",
    )


def write_parquet(path: Path, first: int, end: int) -> None:
    table = pa.table(
        {"n": pa.array(range(first, end), pa.int64()), "word": pa.array(WORDS[first:end], pa.string())}
    )
    pq.write_table(table, path, row_group_size=3)


def generator(folder: Path) -> Outside:
    return Spec({"generator": {"count": RECORDS}}, list(range(RECORDS)))


def memory(folder: Path) -> Outside:
    name = uuid4().hex
    channel_named(name).append("p", *WORDS)
    return Spec({"memory": {"name": name}}, list(WORDS), "p")


FILES = [documents, lines, followed_lines, json_rows, csv_rows, parquet_rows, followed_parquet, followed_csv]


@pytest.mark.parametrize("check", PRODUCER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [*FILES, generator, memory])
def test_contract(make: Callable[[Path], Outside], check: Callable[[Outside], None], tmp_path: Path) -> None:
    if make is memory and "within_the_last" in check.__name__:
        pytest.skip("the memory source has no sizes")
    check(make(tmp_path))


@pytest.mark.parametrize("check", REPLAY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [followed_lines, followed_csv, followed_parquet, memory])
def test_replays(make: Callable[[Path], Outside], check: Callable[[Outside], None], tmp_path: Path) -> None:
    check(make(tmp_path))
