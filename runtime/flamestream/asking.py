"""Asking: one try of a call, wherever it is made: in a worker's caller process, or in a test.

Does not: try again, or bound anything (node/caller_process.py).
"""

import asyncio
import inspect
import threading
from typing import Any

from flamestream.model.call import Answer, Call, CallFunction, answered, hash_of, takes_call
from flamestream.model.codec import encode
from flamestream.model.failure import FATAL
from flamestream.model.vertex import Function


async def asked(function: CallFunction[..., Any], payload: Any, call: Call) -> Any:
    """What the function gives, or the exception that it raises. A plain function runs in a thread."""
    users = function.function
    arguments = (payload, call) if takes_call(users) else (payload,)
    try:
        if inspect.iscoroutinefunction(users):
            return await users(*arguments)
        made = await asyncio.to_thread(_outcome, users, arguments)
        return await made if inspect.isawaitable(made) else made
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 (whatever user code raises is the answer)
        return error


def answer_here(function: CallFunction[..., Any], request: bytes, payload: Any, call: Call) -> Answer:
    """The answer to a request, waited for: for tests and notebooks, whose own loop may be running."""
    found: list[Any] = []

    def ask() -> None:
        found.append(asyncio.run(asked(function, payload, call)))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return Answer(request, hash_of(encode(payload)), *answered(function.function, payload, found[0]))


def _outcome(function: Function, arguments: tuple[Any, ...]) -> Any:
    """What it gives or raises: caught here, so that an error names the user's lines alone."""
    try:
        return function(*arguments)
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 (whatever user code raises is the answer)
        return error
