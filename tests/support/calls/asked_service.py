"""The service of the examples with calls (examples/after_lambda/service.py), a process of its own that can be
killed, and what its log says that it was asked and did."""

import json
import subprocess
import sys
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

SERVICE = Path(__file__).parents[3] / "examples" / "after_lambda" / "service.py"
FAULTS = {
    "late": 0.02, "never": 0.005, "twice": 0.01, "short": 0.01, "error": 0.02, "broken": 0.01, "other": 0.01,
}  # fmt: skip
"""How often it does what, of a service that keeps to the keys."""


class Effect(NamedTuple):
    """Something that it did: for which item, and what it gave."""

    item: str
    gave: Any


@dataclass
class Log:
    """All that it was asked."""

    effects: defaultdict[str, list[Effect]] = field(default_factory=lambda: defaultdict(list))
    """What it did, by key."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often, by key."""
    items: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """For which items, by key."""
    faults: Counter[str] = field(default_factory=Counter)

    def take(self, line: Mapping[str, Any]) -> None:
        """The next line of its file."""
        if "forgets" in line:
            return
        self.asked[line["key"]] += 1
        self.items[line["key"]].add(line["item"])
        self.faults[line["fault"]] += 1
        if line["did"]:
            self.effects[line["key"]].append(Effect(line["item"], line["gave"]))

    @property
    def once(self) -> dict[str, Any]:
        """What it gave for each item, if it did each thing once, under one key."""
        done = [effect for effects in self.effects.values() for effect in effects]
        twice = [item for item, times in Counter(effect.item for effect in done).items() if times > 1]
        assert not twice, f"it did more than once: {twice[:5]}"
        return dict(done)


class AskedService:
    """It keeps its port and its log through its deaths."""

    def __init__(self, folder: Path, faults: Mapping[str, float] = FAULTS, seed: int = 1) -> None:
        self.faults = faults
        self.port = 0
        self._seed, self._file = seed, folder / "service.jsonl"
        self._process: subprocess.Popen[str] | None = None
        self._looked_at = self._requests = 0
        self.start()

    def start(self) -> None:
        """Back when it listens."""
        rates = ",".join(f"{name}={rate}" for name, rate in self.faults.items())
        command = [
            sys.executable, str(SERVICE), str(self.port),
            "--log", str(self._file), "--faults", rates, "--seed", str(self._seed),
        ]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        address = self._process.stdout.readline()
        assert address, "the service does not start"
        self.port = int(address.rpartition(":")[2])

    def kill(self) -> None:
        """Back when it is dead."""
        assert self._process is not None
        with self._process:
            self._process.kill()

    def restart(self) -> None:
        """Killed, and there again with all that it did."""
        self.kill()
        self.start()

    def forget(self) -> None:
        """It loses the keys that it knows."""
        address = f"http://127.0.0.1:{self.port}/forget"
        with urllib.request.urlopen(address, data=b"", timeout=30) as reply:
            assert reply.status == 200

    def requests(self) -> int:
        """How many it has had so far."""
        if self._file.exists():
            with self._file.open("rb") as file:
                file.seek(self._looked_at)
                new = file.read()
            self._looked_at += len(new)
            self._requests += new.count(b"\n")
        return self._requests

    def log(self) -> Log:
        """What it was asked and did so far."""
        found = Log()
        for line in self._file.read_text().splitlines():
            found.take(json.loads(line))
        return found


@contextmanager
def asked_service(folder: Path, faults: Mapping[str, float] = FAULTS) -> Iterator[AskedService]:
    """One that ends with the test."""
    service = AskedService(folder, faults)
    try:
        yield service
    finally:
        service.kill()
