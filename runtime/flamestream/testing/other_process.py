"""Another process, in which a graph is interpreted too: what depends on a process, and not on the input,
differs there.

It has another seed for hashes, so sets of texts have another order, and a clock that is eleven days ahead;
else it is like a worker's.

    parent   -> graph          -> runs      -> runs ...
    child                      <- results   <- results ...

Graph and records go by cloudpickle, which takes functions and classes that no module has. Does not: compare
(graph_check.py).
"""

import importlib.util
import io
import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import TracebackType
from typing import Any, Final, Self

from flamestream.machine.process_shell import INTERPRETER
from flamestream.model import payload as codec
from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.payloads.registry import PLANS
from flamestream.reference import Results, Run, interpret

AHEAD: Final = 1_000_000.0
"""Seconds that its clock is ahead."""
PATIENCE: Final = 60.0
"""Seconds that an answer may take: as long as a program's start on a busy machine, and more."""
Encoded = dict[str, list[tuple[bytes, bytes]]]
"""(meta, payload) of what each sink gets."""


def encoded(results: Results) -> Encoded:
    """Results as bytes."""
    return {
        sink: [(bytes(meta), codec.encode(payload)) for meta, payload in items]
        for sink, items in results.items()
    }


class OtherProcess:
    """The parent's side: the process runs while it is entered."""

    def __init__(self, graph: Graph) -> None:
        # The flag is off under the seed 0 alone, so the child's seed is never ours.
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            **INTERPRETER, "PYTHONHASHSEED": "0" if sys.flags.hash_randomization else "1",
        }  # fmt: skip
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        assert self._child.stdin is not None and self._child.stdout is not None, "they are pipes"
        self._to, self._answers = self._child.stdin, self._child.stdout
        self._pickler = _pickler()
        self._graph, self._begun, self._refusal = graph, False, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.communicate()

    def results(self, runs: Sequence[Run]) -> Encoded:
        """Results of the reference interpreter in the other process. Raises UserError, now and ever after, if
        the graph does not run there."""
        if not self._begun:
            self._begun = True
            files = {
                name: file
                for name, module in list(sys.modules.items())
                if (file := getattr(module, "__file__", None))
            }
            self._send(files, "the list of modules")
            self._send(self._graph, f"graph {self._graph.name!r}")
        self._send([(time, list(records)) for time, records in runs], "a drawn record")
        return self._answer()

    def _send(self, value: Any, what: str) -> None:
        if self._refusal:
            raise UserError(self._refusal)
        try:
            self._to.write(self._pickler.message(value))
            self._to.flush()
        except BrokenPipeError:
            pass  # it has ended, and has said why
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise self._refused(f"{what} cannot be copied to another process ({error})") from error

    def _answer(self) -> Encoded:
        answer: Encoded | str = f"it has not answered for {PATIENCE:.0f} s"
        # It sees the pipe and not the buffer, which is empty: the child says nothing that it was not asked.
        if select.select([self._answers], [], [], PATIENCE)[0]:
            try:
                answer = pickle.load(self._answers)  # noqa: S301 (our own child's)
            except EOFError:
                answer = "it has ended"
        if isinstance(answer, str):
            raise self._refused(f"graph {self._graph.name!r} does not run in another process: {answer}")
        return answer

    def _refused(self, why: str) -> UserError:
        self._refusal = f"{why}; {_WAY_OUT}"
        return UserError(self._refusal)


_WAY_OUT: Final = "build it of functions and classes of modules, or leave this out with other_process=False"


_NOTES: Final = "__msgspec_cache__"
"""Where msgspec notes what it knows of a dataclass: it cannot be copied, and is made again when it is missing."""


def _pickler() -> Any:
    """The pickler of all messages: it remembers what went with one for those behind it."""
    from pyspark.cloudpickle import CloudPickler  # a third of a second, which every command would pay

    class Pickler(CloudPickler):
        def __init__(self) -> None:
            self._written = io.BytesIO()
            super().__init__(self._written)  # type: ignore[no-untyped-call]
            self._classes: list[type] = []

        def message(self, value: Any) -> bytes:
            """A value, and the payload types that have come up so far."""
            self._written.seek(0)
            self._written.truncate()
            self.dump(value)  # type: ignore[no-untyped-call]
            self.dump(tuple(self._classes))  # type: ignore[no-untyped-call]  # of which only new ones are written
            return self._written.getvalue()

        def reducer_override(self, obj: Any) -> Any:
            """Note a payload type: one that no module has is to be registered again."""
            if isinstance(obj, type) and obj in PLANS and obj not in self._classes:
                self._classes.append(obj)
                if _NOTES in vars(obj):
                    delattr(obj, _NOTES)
            return super().reducer_override(obj)  # type: ignore[no-untyped-call]

    return Pickler()


class _Files:
    """Finds modules that the parent has from a file which is not on the path, as test modules may be."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if (file := self._files.get(name)) is None:
            return None
        inside = [os.path.dirname(file)] if os.path.basename(file) == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)


def main() -> None:
    """The child's side, over its standard input and output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what users' functions print is no answer
    now = time.time
    time.time = lambda: now() + AHEAD
    unpickler = pickle.Unpickler(sys.stdin.buffer)  # noqa: S301 (our own parent's)
    sys.meta_path.append(_Files(_received(unpickler)))
    graph: Graph | None = None
    while True:
        try:
            value = _received(unpickler)
            if graph is None:
                graph = value
                continue
            answer: Encoded | str = encoded(interpret(graph, value))
        except EOFError:
            return
        except Exception as error:  # noqa: BLE001 (a user's module may raise anything; the parent tells of it)
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers)
        answers.flush()
        if isinstance(answer, str):
            return


def _received(unpickler: pickle.Unpickler) -> Any:
    value = unpickler.load()
    for cls in unpickler.load():
        if cls not in PLANS:
            codec.payload_type(cls)
    return value
