"""Attacks through what a job reads: records of a producer, which reach the user's functions, and files that
somebody leaves in a folder."""

import gzip
import http.client
import json
import os
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attacks.attack import Attack, Strike
from attacks.hands import Hands
from attacks.honest import FOREIGN
from support.http.raw import ELSEWHERE

PRODUCER, FOLDER = "a producer (or a function that it can drive)", "who writes to a watched folder"
APPLICATION = """
import itertools
import json

import flamestream as fs


def results(text):
    kind, _, rest = str(text).partition(" ")
    if kind == "honest":
        return [int(rest)]
    return BAD[kind](rest)


def deep(_):
    return deep(_)


def busy(_):
    for number in range(10_000_000):
        pass
    return []


def hang(_):
    while True:
        pass


BAD = {
    "endless": lambda _: itertools.count(),
    "list": lambda _: [0] * 5_000_000,
    "huge": lambda _: ["x" * 300_000_000],
    "texts": lambda _: ("x" * 1_000_000 for _ in itertools.count()),
    "raise": lambda rest: [int(rest)],
    "message": lambda _: [].index("x" * 10_000_000),
    "deep": deep,
    "unknown": lambda _: [object()],
    "none": lambda _: None,
    "nested": lambda _: [json.loads("[" * 500 + "]" * 500)],
    "busy": busy,
    "hang": hang,
}


graph = fs.Graph("attacked")
graph.source("docs").flat_map(results).sink("live", key=lambda _: 0)
graph.source("lines").map(lambda row: len(str(row)[:100])).sink("sizes")
graph.source("tables").map(lambda row: len(str(row)[:100])).sink("widths")
"""
"""Of both jobs. A text that is no honest client's is one of the mistakes that a function can be led to
make."""


def posted(make: Callable[[int], bytes]) -> Strike:
    def strike(hands: Hands, number: int) -> None:
        headers = {
            "Idempotency-Key": f"hostile {os.getpid()} {number}",
            "Authorization": f"Bearer {hands.site.token}",
        }
        with closing(
            http.client.HTTPConnection(
                "127.0.0.1", hands.site.inlet, timeout=1, source_address=(ELSEWHERE, 0)
            )
        ) as connection:
            try:
                connection.request("POST", "/", make(number), headers)
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                return

    return strike


def left(place: str, name: str, content: Callable[[], bytes]) -> Strike:
    """A file that appears whole, in the job's folder `place`."""

    def strike(hands: Hands, number: int) -> None:
        folder = Path(getattr(hands.site, place))
        part = folder.parent / f".part-{os.getpid()}-{number}"
        part.write_bytes(content())
        part.rename(folder / f"{os.getpid()}-{number}-{name}")

    return strike


def many_names(hands: Hands, number: int) -> None:
    for each in range(100):
        (Path(hands.site.lines) / f"{os.getpid()}-{number}-{each}.jsonl").write_text("")


def links_out(hands: Hands, number: int) -> None:
    (Path(hands.site.lines) / f"{os.getpid()}-{number}.jsonl").symlink_to("/dev/zero")


@cache
def one_text() -> bytes:
    """20 kB that stand for 400 MB."""
    return parquet(pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["x" * 400_000]))


@cache
def zeros() -> bytes:
    """In one row."""
    return parquet(
        pa.ListArray.from_arrays(
            pa.array([0, 40 << 20], pa.int32()), pa.repeat(pa.scalar(0, pa.int8()), 40 << 20)
        )
    )


def parquet(column: pa.Array) -> bytes:
    made = pa.BufferOutputStream()
    pq.write_table(pa.table({"it": column}), made, compression="zstd", store_schema=False)
    return bytes(made.getvalue())


@cache
def packed() -> bytes:
    """A line without end."""
    return gzip.compress(b"x" * (64 << 20), 1)


def always(text: str) -> Callable[[], bytes]:
    return text.encode


OBJECT = json.dumps(dict.fromkeys(map(str, range(100_000)), 0))
ATTACKS = [
    Attack(PRODUCER, "makes a function give results without end", posted(lambda _: b"endless"), a_second=1),
    Attack(PRODUCER, "makes it give a list of 5 million", posted(lambda _: b"list"), a_second=1),
    Attack(PRODUCER, "makes it give a text of 300 MB", posted(lambda _: b"huge"), a_second=1),
    Attack(PRODUCER, "makes it give texts of 1 MB without end", posted(lambda _: b"texts"), a_second=1),
    Attack(PRODUCER, "makes it raise", posted(lambda _: b"raise x")),
    Attack(PRODUCER, "makes it raise with a message of 10 MB", posted(lambda _: b"message"), a_second=5),
    Attack(PRODUCER, "makes it call itself without end", posted(lambda _: b"deep"), a_second=20, ends=True),
    Attack(PRODUCER, "makes it give what is no payload", posted(lambda _: b"unknown"), a_second=20),
    Attack(PRODUCER, "makes it give None", posted(lambda _: b"none"), a_second=20),
    Attack(PRODUCER, "makes it give 500 lists in each other", posted(lambda _: b"nested"), a_second=20),
    Attack(PRODUCER, "keeps it busy for a third of a second", posted(lambda _: b"busy"), a_second=1),
    Attack(
        PRODUCER,
        "posts as fast as it is answered",
        posted(lambda number: b"honest %d" % (FOREIGN + number)),
        a_second=300,
    ),
    Attack(PRODUCER, "posts 1 MB each", posted(lambda _: b"raise " + b"x" * 1_000_000), a_second=20),
    Attack(PRODUCER, "posts what is not UTF-8", posted(lambda _: b"\xff\xfe" * 100)),
    Attack(
        FOLDER,
        "leaves 20 kB of Parquet that stand for 400 MB",
        left("tables", "a.parquet", one_text),
        a_second=0.5,
        prepare=one_text,
    ),
    Attack(
        FOLDER,
        "leaves a row of Parquet with 40 million zeros",
        left("tables", "a.parquet", zeros),
        a_second=0.5,
        prepare=zeros,
    ),
    Attack(
        FOLDER, "leaves Parquet that is none", left("tables", "a.parquet", always("PAR1" * 1000)), a_second=20
    ),
    Attack(
        FOLDER,
        "leaves a packed line of 64 MB",
        left("lines", "a.jsonl.gz", packed),
        a_second=0.5,
        prepare=packed,
    ),
    Attack(
        FOLDER, "leaves lists in lists of JSON", left("lines", "a.jsonl", always("[" * 100_000)), a_second=5
    ),
    Attack(
        FOLDER,
        "leaves an object of 100,000 names",
        left("lines", "a.jsonl", always(OBJECT)),
        a_second=2,
    ),
    Attack(
        FOLDER,
        "leaves numbers of 100,000 digits",
        left("lines", "a.jsonl", always("9" * 100_000)),
        a_second=5,
    ),
    Attack(FOLDER, "leaves 100 empty files at once", many_names, a_second=5),
    Attack(FOLDER, "leaves links to endless files", links_out, a_second=5),
    Attack(PRODUCER, "makes a function never return", posted(lambda _: b"hang"), a_second=1, ends=True),
]
