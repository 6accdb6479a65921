"""The process of one version of the code: started by an audit or a canary, told a request, asked for its answer.

`python -m flamestream.audit.span_process FOLDER`: the request is in FOLDER/request, and the answer is written
beside it. What the application prints is in FOLDER/out.

Keeps: one is there at a time, and ends with the audit, however that ends. Does not: say what the runs give
(code_span.py, canary_steps.py).
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import msgspec

from flamestream.audit import canary_steps
from flamestream.audit.canary_steps import CanaryRequest, Tried
from flamestream.audit.code_span import SpanAnswer, SpanRequest, answered
from flamestream.machine.parent_death import start_child
from flamestream.machine.process_shell import INTERPRETER, keep_private
from flamestream.model.decoding import from_msgpack
from flamestream.model.errors import Bug, Corrupt, Fenced, FlameStreamError, Retryable, UserError

A = TypeVar("A", SpanAnswer, Tried)
_MODULE: Final = "flamestream.audit.span_process"
_ERRORS: Final = {each.category: each for each in (UserError, Retryable, Fenced, Corrupt, Bug)}
LOOK: Final = 0.1
_SHOWN: Final = 2000
"""Characters of what a process has printed that ended without an answer."""


def asked(request: SpanRequest) -> SpanAnswer:
    """The answer of a process of its own. Only from the main thread. Raises what it has raised, and UserError
    if it ended without an answer."""
    return _answer(request, request, SpanAnswer)


def tried(request: CanaryRequest, within: float, meanwhile: Callable[[], None] = lambda: None) -> Tried:
    """The same of a canary, which has `within` seconds: UserError if they were too few. `meanwhile` is called every
    LOOK seconds until then."""
    return _answer(request, request.span, Tried, within, meanwhile)


def _answer(
    request: SpanRequest | CanaryRequest, code: SpanRequest, kind: type[A], within: float = inf,
    meanwhile: Callable[[], None] = lambda: None,
) -> A:  # fmt: skip
    # an audit leaves nothing behind
    environment = {**os.environ, **INTERPRETER, "PYTHONDONTWRITEBYTECODE": "1"}
    with TemporaryDirectory(prefix="flamestream-audit-") as place:
        folder = Path(place)
        (folder / "request").write_bytes(msgspec.msgpack.encode(request))
        process = start_child([sys.executable, "-m", _MODULE, folder], folder / "out", environment)
        try:
            ended = _ended(process, within, meanwhile)
        except subprocess.TimeoutExpired:
            raise UserError(
                f"code {code.code[:12]} of {code.file} has not come to an end in {within:g} s"
            ) from None
        finally:
            process.kill()
            process.wait()
        if not (folder / "answer").exists():
            said = (folder / "out").read_text(encoding="utf-8", errors="replace").strip()[-_SHOWN:]
            raise UserError(
                f"{code.file}: the process that interprets code {code.code[:12]} ended with exit code {ended}"
                + (f" and said: {said}" if said else "")
            )
        answer = from_msgpack((folder / "answer").read_bytes(), kind)
    if answer.category:
        raise _ERRORS[answer.category](f"with code {code.code[:12]}: {answer.message}")
    return answer


def _ended(process: "subprocess.Popen[bytes]", within: float, meanwhile: Callable[[], None]) -> int:
    """The exit code. Raises TimeoutExpired."""
    until = time.monotonic() + within
    while True:
        try:
            return process.wait(min(LOOK, max(0.0, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= until:
                raise
            meanwhile()


def _work(request: SpanRequest | CanaryRequest) -> SpanAnswer | Tried:
    try:
        return answered(request) if isinstance(request, SpanRequest) else canary_steps.tried(request)
    except FlameStreamError as error:
        kind = SpanAnswer if isinstance(request, SpanRequest) else Tried
        return kind(category=error.category, message=str(error))


def main(arguments: Sequence[str]) -> int:
    """Answer the request in a folder."""
    keep_private()
    folder = Path(arguments[0])
    answer = _work(from_msgpack((folder / "request").read_bytes(), SpanRequest | CanaryRequest))
    # whole or not at all
    (folder / "fresh").write_bytes(msgspec.msgpack.encode(answer))
    os.replace(folder / "fresh", folder / "answer")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
