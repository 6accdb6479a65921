"""The process of a span of code: started by an audit, told a request, asked for its answer.

`python -m flamestream.audit.span_process FOLDER`: the request is in FOLDER/request, and the answer is written
beside it. What the application prints is in FOLDER/out.

Keeps: one is there at a time, and ends with the audit, however that ends. Does not: say what the runs give
(code_span.py).
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from flamestream.audit.code_span import SpanAnswer, SpanRequest, answered
from flamestream.machine.parent_death import start_child
from flamestream.machine.process_shell import INTERPRETER, keep_private
from flamestream.model.decoding import from_msgpack
from flamestream.model.errors import Bug, Corrupt, Fenced, FlameStreamError, Retryable, UserError

_MODULE: Final = "flamestream.audit.span_process"
_ERRORS: Final = {each.category: each for each in (UserError, Retryable, Fenced, Corrupt, Bug)}
_SHOWN: Final = 2000
"""Characters of what a process has printed that ended without an answer."""


def asked(request: SpanRequest) -> SpanAnswer:
    """The answer of a process of its own. Only from the main thread. Raises what it has raised, and UserError
    if it ended without an answer."""
    # an audit leaves nothing behind
    environment = {**os.environ, **INTERPRETER, "PYTHONDONTWRITEBYTECODE": "1"}
    with TemporaryDirectory(prefix="flamestream-audit-") as place:
        folder = Path(place)
        (folder / "request").write_bytes(msgspec.msgpack.encode(request))
        process = start_child([sys.executable, "-m", _MODULE, folder], folder / "out", environment)
        try:
            code = process.wait()
        finally:
            process.kill()
            process.wait()
        if not (folder / "answer").exists():
            said = (folder / "out").read_text(encoding="utf-8", errors="replace").strip()[-_SHOWN:]
            raise UserError(
                f"{request.file}: the process that interprets code {request.code[:12]} ended with exit code {code}"
                + (f" and said: {said}" if said else "")
            )
        answer = from_msgpack((folder / "answer").read_bytes(), SpanAnswer)
    if answer.category:
        raise _ERRORS[answer.category](f"with code {request.code[:12]}: {answer.message}")
    return answer


def main(arguments: Sequence[str]) -> int:
    """Answer the request in a folder."""
    keep_private()
    folder = Path(arguments[0])
    try:
        answer = answered(from_msgpack((folder / "request").read_bytes(), SpanRequest))
    except FlameStreamError as error:
        answer = SpanAnswer(category=error.category, message=str(error))
    # whole or not at all
    (folder / "fresh").write_bytes(msgspec.msgpack.encode(answer))
    os.replace(folder / "fresh", folder / "answer")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
