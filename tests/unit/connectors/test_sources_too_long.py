"""A row or an entry that is longer than a record may be is an error item, as in every other source: no frame
could carry it."""

from types import SimpleNamespace
from typing import Any

import pytest

from flamestream.connectors.postgres import source as postgres_source
from flamestream.connectors.postgres.source import ChangeLog, PostgresReader
from flamestream.connectors.redis import source as redis_stream
from flamestream.connectors.redis.source import RedisReader, Stream
from flamestream.model.payload import ErrorValue

SERVER: Any = SimpleNamespace(where="there")


def test_a_row_of_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_source, "MAX_RECORD", 100)
    reader = PostgresReader(SERVER, ChangeLog("t", "id", ["a", "b"], True, 0, 0.1), "rows")
    assert reader._chunk([(5, "x" * 40, "y" * 40)]).payloads == [("x" * 40, "y" * 40)]
    chunk = reader._chunk([(5, "x", "y"), (6, "x" * 60, ["y" * 30, "z" * 30])])
    assert chunk.payloads[0] == ("x", "y")
    assert isinstance(chunk.payloads[1], ErrorValue)
    assert (chunk.payloads[1].function, chunk.payloads[1].error) == ("source rows", "RecordTooLong")
    assert "id 6 has more than 100 bytes" in chunk.payloads[1].message
    assert reader._mean > 50, "what was read counts, not what is made of it: by it the next read is bounded"


def test_an_entry_of_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_stream, "MAX_RECORD", 100)
    reader = RedisReader(SERVER, Stream("s", ["a"], False, 0, True), "entries")
    short, long = reader._chunk(
        [[b"5-0", [b"a", b"x" * 99]], [b"5-1", [b"a", b"x", b"b", b"y" * 98]]]
    ).payloads
    assert short == "x" * 99
    assert isinstance(long, ErrorValue) and (long.function, long.error) == ("source entries", "RecordTooLong")
    assert "entry 5-1: it has more than 100 bytes" in long.message
