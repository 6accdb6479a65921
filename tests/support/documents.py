"""A small seeded corpus, and the two places that jobs read it from: a folder that may grow, and a socket that
resends.

Document `number` has the same text for ever, and the order of numbers is the byte order of names.
"""

import importlib.util
import os
import random
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import flamestream as fs

VOCABULARY = [f"{a}{b}{c}" for a in "bdfg" for b in "aeiou" for c in "klmnprst"]
EXAMPLE = Path(__file__).parents[2] / "examples" / "connectors" / "socket_client.py"


def document(number: int, words: int = 60) -> str:
    """A text of frequent and rare words."""
    rng = random.Random(f"document {number}")
    return " ".join(VOCABULARY[min(len(VOCABULARY) - 1, int(rng.expovariate(1 / 40)))] for _ in range(words))


def texts(count: int) -> list[str]:
    return [document(number) for number in range(count)]


def name(number: int) -> str:
    """A document's file."""
    return f"{number:05d}.txt"


class Folder:
    """Documents as files. Each appears whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._there = 0
        path.mkdir()

    @staticmethod
    def made(number: int) -> fs.Document:
        """As a files source gives it."""
        return fs.Document(name(number), document(number))

    def add(self, numbers: Iterable[int]) -> list[fs.Document]:
        """Write these."""
        found = [self.made(number) for number in numbers]
        for one in found:
            fresh = self.path / f".{one.name}"
            fresh.write_text(one.text)
            os.rename(fresh, self.path / one.name)
        return found

    def grow_to(self, count: int, part: float) -> None:
        """Have this part of `count` documents there."""
        upto = min(count, int(count * part) + 1)
        if upto > self._there:
            self.add(range(self._there, upto))
            self._there = upto


class _Held(list[bytes]):
    """Records that are given out as far as they are there."""

    def __init__(self, records: list[bytes], there: int) -> None:
        super().__init__(records)
        self._changed = threading.Condition()
        self._there = there

    def __getitem__(self, number: Any) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: number < self._there)
        return super().__getitem__(number)

    def grow_to(self, there: int) -> None:
        with self._changed:
            self._there = max(self._there, there)
            self._changed.notify_all()


class SocketServer:
    """The example producer of docs/reference/wire-protocol.md, which resends from where each connection
    asks."""

    def __init__(self, records: list[bytes], held: bool = False) -> None:
        """`held`: none is there before `grow_to` says so."""
        self._records = _Held(records, 0 if held else len(records))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(
            target=self._serve, args=(self._records,), name="producer", daemon=True
        )

    def grow_to(self, part: float) -> None:
        """Have this part of the records there."""
        self._records.grow_to(int(len(self._records) * part) + 1)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.grow_to(1)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self, records: list[bytes]) -> None:
        try:
            _example().produce(self._listener, records)
        except OSError:
            return  # the listener was shut down


def _example() -> Any:
    spec = importlib.util.spec_from_file_location("socket_client_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
