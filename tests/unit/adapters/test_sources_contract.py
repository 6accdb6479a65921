"""Every source that reads, generates or remembers keeps the producer's contract."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from flamestream.adapters import sources
from flamestream.adapters.sources.memory import channel_named
from flamestream.model.ids import Partition
from flamestream.model.records import Document
from flamestream.ports import Post, Producer, Reactor
from flamestream.testing.producer_contract import FRONT, PRODUCER_CHECKS, RECORDS, REPLAY_CHECKS, Outside

WORDS = [f"wörd {number}" for number in range(RECORDS)]


def numbered(number: int) -> str:
    return WORDS[number]


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


def generator(folder: Path) -> Outside:
    return Spec({"generator": {"count": RECORDS}}, list(range(RECORDS)))


def memory(folder: Path) -> Outside:
    name = uuid4().hex
    channel_named(name).append("p", *WORDS)
    return Spec({"memory": {"name": name}}, list(WORDS), "p")


@pytest.mark.parametrize("check", PRODUCER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [documents, lines, followed_lines, generator, memory])
def test_contract(make: Callable[[Path], Outside], check: Callable[[Outside], None], tmp_path: Path) -> None:
    if make is memory and "within_the_last" in check.__name__:
        pytest.skip("the memory source has no sizes")
    check(make(tmp_path))


@pytest.mark.parametrize("check", REPLAY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [followed_lines, memory])
def test_replays(make: Callable[[Path], Outside], check: Callable[[Outside], None], tmp_path: Path) -> None:
    check(make(tmp_path))
