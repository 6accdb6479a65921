"""Decoding: hostile bytes are one error, whatever they are, and nothing else in the product decodes."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.decoding import DecodeError, from_json, from_msgpack

ROOT = Path(__file__).parents[3]
ELSEWHERE = {
    "runtime/flamestream/model/decoding.py": "the one place",
    "runtime/flamestream/model/payloads/encoding.py": "payloads, whose errors are its own",
    "runtime/flamestream/model/event_decoder.py": "with a hook for collections; what does not fit is a "
    "RecordError",
    "runtime/flamestream/connectors/kafka/place_values.py": "what an audit finds at a user's place; it "
    "catches ValueError",
    "runtime/flamestream/spark/streaming/driver_stay.py": "the operator's own answer, once",
    "runtime/flamestream/cli/kubectl/beside.py": "what kubectl prints",
    "runtime/flamestream/cli/kubectl/cluster.py": "what kubectl prints",
    "runtime/flamestream/spark/frames/runs_source.py": "Spark's own offsets",
}
CALLS = {
    "json.loads",
    "json.load",
    "msgspec.json.decode",
    "msgspec.msgpack.decode",
    "msgspec.json.Decoder",
    "msgspec.msgpack.Decoder",
}

HOSTILE = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'{"job": "\xff"}',
    "not UTF-8 in a name": b'{"\xff": 1}',
    "half a surrogate": rb'{"writer": "\ud800"}',
    "nested too deep": b"[" * 100_000,
    "objects too deep": b'{"a":' * 100_000,
    "a number without end": b"1" * 100_000,
    "another type": b"[1, 2]",
    "NaN": b"NaN",
    "more behind it": b'{} {"job": 1}',
}
PACKED = {
    "nothing": b"",
    "cut off": b"\x92\x01",
    "not UTF-8": b"\x91\xa1\xff",
    "nested too deep": b"\x91" * 100_000,
    "a length without bytes": b"\xdd\xff\xff\xff\xff",
    "another type": b"\xc3",
    "an unknown extension": b"\xc7\xff\x01",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", [JobRecord, SnapshotIndex, ProcessIdentity])
def test_json_that_is_not_what_was_asked_for_is_one_error(name: str, kind: Any) -> None:
    with pytest.raises(DecodeError):
        from_json(HOSTILE[name], kind)


@pytest.mark.parametrize("name", PACKED)
def test_so_is_msgpack(name: str) -> None:
    with pytest.raises(DecodeError):
        from_msgpack(PACKED[name], tuple[str, int])


@pytest.mark.parametrize("name", ["not UTF-8", "nested too deep"])
def test_msgspec_alone_would_let_another_one_through(name: str) -> None:
    """Or there is nothing to guard."""
    with pytest.raises((UnicodeError, RecursionError)):
        msgspec.json.decode(HOSTILE[name])


def test_nothing_else_decodes() -> None:
    found = {
        str(file.relative_to(ROOT))
        for root in ("runtime", "operator")
        for file in (ROOT / root).rglob("*.py")
        if any(calls(file))
    }
    assert {file for file in found if "/testing/" not in file and "/simulation/" not in file} == set(
        ELSEWHERE
    ), "use flamestream.model.decoding"


def calls(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in CALLS:
            yield ast.unparse(node)
