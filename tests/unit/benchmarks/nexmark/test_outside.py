"""The producer of Nexmark's events serves both systems the same bytes, each in its own form, again from any
number on."""

import json
import socket
import struct
import threading
from pathlib import Path

import pytest
from nexmark.outside import Past, Phase, Producer, by_lines

EVENTS = [f'{{"type":"Bid","number":{number}}}' for number in range(50)]


def asked(form: str, number: int) -> bytes:
    if form == "lines":
        return b"%d\n" % number
    said = json.dumps({"flamestream": 1, "attempt": 1, "next": {"": number}}).encode()
    return struct.pack(">I", len(said)) + said


def framed(form: str, number: int) -> bytes:
    line = EVENTS[number].encode()
    return line + b"\n" if form == "lines" else struct.pack(">IQ", len(line) + 8, number) + line


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "events.jsonl"
    file.write_text("".join(line + "\n" for line in EVENTS))
    return file


def received(connection: socket.socket, size: int) -> bytes:
    said = b""
    while len(said) < size:
        said += connection.recv(1 << 16)
    return said


@pytest.mark.parametrize("form", ["wire", "lines"])
def test_who_asks_gets_all_events_and_who_asks_again_those_from_there_on(form: str, events: Path) -> None:
    producer = Producer(form, 0, events)
    phases = [Phase("full", 60.0, 30), Phase("fixed", 60.0, 20, rate=10_000.0)]
    # it goes on behind this test: what it said would be in another's output
    threading.Thread(target=producer.serve, args=(phases, 0.0, list[str]().append), daemon=True).start()
    for first in (0, 45):
        with socket.create_connection(("127.0.0.1", producer.port)) as connection:
            connection.sendall(asked(form, first))
            wanted = b"".join(framed(form, number) for number in range(first, 50))
            assert received(connection, len(wanted)) == wanted


def test_an_event_is_due_by_the_schedule_alone() -> None:
    assert Past("fixed", first=100, count=50, start=7.0, rate=10.0).due(105) == 7.5


def test_a_line_counts_when_its_last_byte_is_there() -> None:
    pieces = [(1.0, b'+I{"a":1}\n+I{"'), (2.0, b'a":2}\n')]
    assert list(by_lines(pieces)) == [(1.0, [("+I", (1,))]), (2.0, [("+I", (2,))])]
