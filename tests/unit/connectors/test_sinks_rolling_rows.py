"""Rows of the rolling sink's files: every payload comes back, and others can read the columns."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from flamestream.connectors.rolling.columns import columns_of
from flamestream.connectors.rolling.parts import part_format
from flamestream.connectors.sinks import describe
from flamestream.model.collections import Map, Set, Vector
from flamestream.model.errors import ManifestError
from flamestream.model.payload import ErrorValue, encode_items, payload_type


@payload_type
@dataclass(frozen=True, slots=True)
class Inner:
    flag: bool
    pair: tuple[int, str]


@payload_type
@dataclass(frozen=True, slots=True)
class Full:
    name: str
    number: int
    share: float
    raw: bytes
    maybe: int | None
    inner: Inner
    numbers: tuple[int, ...]
    vector: "Vector[str]"
    map: "Map[str, Inner]"
    set: "Set[int]"


@payload_type
@dataclass(frozen=True, slots=True)
class Loose:
    anything: object


FULL = Full(
    "n",
    -5,
    1.0,
    b"\x00\xff",
    None,
    Inner(True, (1, "x")),
    (1, 2),
    Vector(["a"]),
    Map({"k": Inner(False, (2, "y"))}),
    Set([3, 1]),
)
MISFITS = [
    FULL,
    Full("n", 1 << 63, 1.0, b"", 1, FULL.inner, (), Vector(), Map(), Set()),
    ErrorValue("f", "E", "m"),
    7,
    (1, None),
]


@pytest.mark.parametrize("name", ["parquet", "jsonl"])
@pytest.mark.parametrize("type_name", ["Full", None])
def test_every_payload_comes_back_as_it_was(name: str, type_name: str | None) -> None:
    parts = part_format(name, type_name, "w")
    payloads = [
        *MISFITS,
        # True is no int, 1 is no float
        Full("n", True, 1, b"", 1, FULL.inner, (), Vector(), Map(), Set()),
        replace(FULL, share=float("inf")),
    ]
    rows = [
        (number.to_bytes(9, "big"), number % 3, number, payload) for number, payload in enumerate(payloads)
    ]
    back = list(parts.rows(parts.encoded(rows), "part"))
    assert back == rows
    assert encode_items([row[::3] for row in back]) == encode_items([row[::3] for row in rows])


def test_fields_are_columns_that_others_can_read(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "a.parquet").write_bytes(
        part_format("parquet", "Full", "w").encoded([(bytes(9), 1, 1, FULL)])
    )
    (row,) = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert (row["name"], row["number"], row["inner"], row["numbers"]) == (
        "n",
        -5,
        {"flag": True, "pair": {"_0": 1, "_1": "x"}},
        [1, 2],
    )
    assert row["map"] == [("k", {"flag": False, "pair": {"_0": 2, "_1": "y"}})]
    assert row["_value"] is None


def test_settings_and_classes_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ManifestError, match=r"spec.sinks.out.rolling: `rollBytes` is from"):
        describe({"rolling": {"path": "x", "rollBytes": 1}}, "spec.sinks.out")
    with pytest.raises(ManifestError, match="unknown scheme"):
        describe({"rolling": {"path": "hdfs://x"}}, "spec.sinks.out")
    with pytest.raises(ManifestError, match=r"field anything of .*Loose is annotated <class 'object'>"):
        columns_of(Loose, "w")
    assert describe({"rolling": {"path": "x"}}).fences
