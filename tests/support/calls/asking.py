"""A worker's caller with its real process, in a loop of the test's, and what it has answered."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flamestream.core.protocol.actions import MakeCall
from flamestream.core.protocol.events import CallReturned, Event
from flamestream.job.application import load
from flamestream.model import payload as codec
from flamestream.model.calls.call import calls_of
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SourceName
from flamestream.model.meta import meta_of
from flamestream.model.time import Time
from flamestream.node.calls.caller import Caller
from flamestream.node.calls.process import CallerConfig
from support import loops

MOST = 100_000
"""Bytes of an answer that its journal takes."""
BEGINS = """
import asyncio
import flamestream as fs

graph = fs.Graph("calls")
items = graph.source("items")

def asked(function):
    items.call(function).sink("of_" + function.__name__)
    return function
"""
"""How an application of such a test begins: `@asked` behind `@fs.call` puts a function into its graph."""


class Asking:
    """The caller of an application that is written into `folder` as `module`."""

    def __init__(
        self, loop: Any, folder: Path, module: str, text: str, egress: tuple[str, ...] | None = None,
        clients: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        application = folder / f"{module}.py"
        application.write_text(text)
        self.loop, self.events = loop, list[Event]()
        graph = load(application, "graph")
        config = CallerConfig(
            application=str(application), graph="graph", job="job", worker="w", parent=0, most=MOST,
            egress=egress, clients=dict(clients or {}),
        )  # fmt: skip
        self.caller = Caller(config, calls_of(graph), loop, self.events.append)

    def make(self, call: str, item: Any, number: int = 1, attempt: int = 1) -> None:
        """A request."""
        self.caller.make(
            MakeCall(
                Fence(Attempt(attempt), LayoutVersion(1)), SourceName(f"{call}()"),
                meta_of(Time(number), 0), codec.encode(item), f"{call}-{number}",
            )
        )  # fmt: skip

    def asks_another(self, process: object) -> bool:
        """Whether the process that makes its calls is another one than this."""
        return self.caller._process is not process

    def answers(self, count: int = 1) -> list[CallReturned]:
        """The next ones."""
        loops.turn_until(self.loop, lambda: len(self.events) >= count, f"{count} answers")
        found, self.events[:] = [each for each in self.events if isinstance(each, CallReturned)], []
        return found

    def answer(self, call: str, item: Any) -> CallReturned:
        """The answer to one request."""
        self.make(call, item)
        (found,) = self.answers()
        return found

    def result(self, call: str, item: Any = 1) -> Any:
        """The one result of one request."""
        found = self.answer(call, item)
        assert found.error is None, found.error
        return found.results[0]

    def error(self, call: str, item: Any = 1) -> str:
        """The error of one request."""
        found = self.answer(call, item)
        assert found.error is not None, found
        return f"{found.error.error}: {found.error.message}"


@contextmanager
def closed(asking: Asking) -> Iterator[Asking]:
    """With a process that ends behind it."""
    try:
        yield asking
    finally:
        asking.caller.close()


@contextmanager
def asking_with(
    folder: Path, module: str, text: str, egress: tuple[str, ...] | None = None, **clients: Any
) -> Iterator[Asking]:
    """One in a loop of its own."""
    with loops.reactor() as loop, closed(Asking(loop, folder, module, text, egress, clients)) as made:
        yield made
