"""Following a files sink: every item once, from whatever cursor, through recoveries."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors import sinks
from flamestream.core.protocol.actions import Bundle
from flamestream.fenced import tail as tail_module
from flamestream.fenced.log import end_of
from flamestream.fenced.tail import Cursor, Given, Tail
from flamestream.model.errors import UserError
from flamestream.model.ids import SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.payload import encode_items
from flamestream.ports import Consumer, Post, Reactor
from flamestream.testing.consumer_contract import SINK, Worker, fence
from flamestream.testing.port_driver import PortDriver


class Folder:
    """A files sink."""

    def __init__(self, root: Path) -> None:
        self.spec = {"files": {"path": str(root), "fsync": False}}

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        raise NotImplementedError


def bundle(slot: int, sequence: int, items: int) -> Bundle:
    metas = [sequence.to_bytes(9, "big") + bytes([slot, number]) for number in range(items)]
    return Bundle(
        Slot(slot),
        SequenceNumber(sequence),
        metas[-1],
        encode_items([(meta, f"{slot}/{sequence}/{meta[-1]}") for meta in metas]),
    )


def everything(tail: Tail, most: int) -> list[Given]:
    found: list[Given] = []
    while given := tail.next(most):
        assert len(given) <= most
        found += given
    return found


def test_what_is_given_at_once_is_bounded_in_bytes_but_for_one_item(tmp_path: Path) -> None:
    """A client that does not read costs no more than that."""
    root = tmp_path / "out"
    metas = [number.to_bytes(9, "big") for number in range(50)]
    items = encode_items([(meta, "x" * 10_000) for meta in metas])
    with PortDriver() as driver:
        worker = Worker(Folder(root), "w", driver)
        worker.open(fence(1), 0)
        for sequence in range(1, 4):
            worker.deliver(fence(1), Bundle(Slot(0), SequenceNumber(sequence), metas[-1], items))
    tail, sizes = Tail(root, Cursor()), []
    while given := tail.next(256, 25_000):
        sizes.append(len(given))
    assert sum(sizes) == 150
    assert set(sizes) == {3}, "two are not enough, and the third has a part in it"


def history(root: Path, driver: PortDriver, rng: random.Random, tail: Tail) -> list[Given]:
    """Two workers a fence, some of them survivors, eight fences; followed all the while."""
    seen: list[Given] = []
    sequences = dict.fromkeys(range(6), 0)
    folder = Folder(root)
    survivor = Worker(folder, "w~0/é@x", driver)
    for attempt in range(1, 9):
        workers = [survivor, Worker(folder, f"w{attempt}", driver)]
        slots = rng.sample(range(6), 6)
        for place, worker in enumerate(workers):
            worker.open(fence(attempt), *slots[place::2])
        for _ in range(rng.randrange(6)):
            place = rng.randrange(2)
            chosen = rng.sample(slots[place::2], rng.randrange(1, 3))
            for slot in chosen:
                sequences[slot] += 1
            workers[place].deliver(
                fence(attempt), *(bundle(slot, sequences[slot], rng.randrange(1, 4)) for slot in chosen)
            )
            if rng.random() < 0.5:
                seen += tail.next(rng.randrange(1, 6))
    return seen


@pytest.mark.parametrize("seed", range(6))
def test_every_item_once_from_every_cursor(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    root = tmp_path / "out"
    with PortDriver() as driver:
        tail = Tail(root, Cursor())
        seen = history(root, driver, rng, tail)
        seen += everything(tail, 3)
        wanted = {(item[1], item[3]) for item in sinks.read({"files": {"path": str(root)}})}
        assert len(seen) == len(wanted) == len({(item.slot, item.payload) for item in seen})
        for slot in range(6):
            metas = [item.meta for item in seen if item.slot == slot]
            assert metas == sorted(metas)
        for place, item in enumerate(seen):
            rest = everything(Tail(root, Cursor.parse(item.cursor)), rng.randrange(1, 50))
            assert len(rest) == len(seen) - place - 1
            assert {given.payload for given in rest} == {given.payload for given in seen[place + 1 :]}


def test_from_the_end_only_what_comes_later(tmp_path: Path) -> None:
    with PortDriver() as driver:
        worker = Worker(Folder(tmp_path / "out"), "w", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1, 2))
        tail = Tail(tmp_path / "out", Cursor())
        tail.to_the_end()
        worker.deliver(fence(1), bundle(0, 2, 1))
        assert [item.payload for item in Tail(tmp_path / "out", Cursor.parse(tail.cursor)).next(9)] == [
            "0/2/0"
        ]


def test_the_end_is_found_without_reading_what_lies_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder only grows, and whoever asks a port may ask for its end again and again."""
    root, starts = tmp_path / "out", list[int]()
    with PortDriver() as driver:
        worker = Worker(Folder(root), "w", driver)
        for attempt in (1, 2):
            worker.open(fence(attempt), 0)
            for sequence in range(1, 4):
                worker.deliver(fence(attempt), bundle(0, 3 * attempt - 3 + sequence, 2))
        at = Cursor()
        monkeypatch.setattr(tail_module, "scan", None)

        def noted(file: Any, start: int) -> Any:
            starts.append(start)
            return end_of(file, start)

        monkeypatch.setattr(tail_module, "end_of", noted)
        Tail(root, at).to_the_end()
        Tail(root, at).to_the_end()
        monkeypatch.undo()
        assert starts[0] == 0 < starts[1] == next(root.glob("attempt-2-*")).stat().st_size, (
            "only what is new is looked at"
        )
        assert Tail(root, at.copy()).next(9) == []
        worker.deliver(fence(2), bundle(0, 7, 1))
        with next(root.glob("attempt-2-*")).open("ab") as torn:
            torn.write(b"\0\0\0\x10half")
        assert [item.payload for item in Tail(root, at.copy()).next(9)] == ["0/7/0"]
        Tail(root, at).to_the_end()
        assert (
            max(place.start for place in at.places.values())
            == next(root.glob("attempt-2-*")).stat().st_size - 8
        )


def test_an_end_in_the_middle_of_a_takeover_loses_nothing_that_counts_again(tmp_path: Path) -> None:
    with PortDriver() as driver:
        worker = Worker(Folder(tmp_path / "out"), "w", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1, 1))
        (tmp_path / "out" / "fences" / "0000000002-0000000001.announced").touch()
        tail = Tail(tmp_path / "out", Cursor())
        tail.to_the_end()
        newer = Worker(Folder(tmp_path / "out"), "w2", driver)
        newer.open(fence(2), 0)
        newer.deliver(fence(2), bundle(0, 2, 1))
        assert [item.payload for item in tail.next(9)] == ["0/2/0"]


def test_what_a_takeover_has_not_decided_waits(tmp_path: Path) -> None:
    with PortDriver() as driver:
        worker = Worker(Folder(tmp_path / "out"), "w", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1, 1))
        (tmp_path / "out" / "fences" / "0000000002-0000000001.announced").touch()
        tail = Tail(tmp_path / "out", Cursor())
        assert tail.next(9) == []
        Worker(Folder(tmp_path / "out"), "w2", driver).open(fence(2), 0)
        assert [item.payload for item in tail.next(9)] == ["0/1/0"]


@pytest.mark.parametrize(
    "text", ["x", "1", "1.1/w", "1.1/../../etc@1", "1.1/w-0@x", "1.1/w-0@1+", "9" * 400 + ".1", "1.1\n"]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a cursor"):
        Cursor.parse(text)


def test_a_cursor_of_another_folder_is_refused(tmp_path: Path) -> None:
    with PortDriver() as driver:
        Worker(Folder(tmp_path / "out"), "w", driver).open(fence(1), 0)
        with pytest.raises(UserError, match="has seen only 1"):
            Tail(tmp_path / "out", Cursor.parse("7.1/w-0@10")).next(1)
