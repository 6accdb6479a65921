"""Asking: one try of a call, wherever it is made: in a worker's caller process, or in a test.

Does not: try again, or bound anything (node/caller_process.py).
"""

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flamestream.model.call import Answer, Call, CallFunction, answered, hash_of, takes_call
from flamestream.model.failure import FATAL
from flamestream.model.payloads.codec import encode
from flamestream.model.vertex import Function


class Stopped(Exception):
    """A function raised what would stop more than itself: SystemExit, or a cancellation that nobody asked
    for."""


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
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # by its timeout
        return Stopped(f"it raised {type(error).__name__}: {error}")


def answer_here(function: CallFunction[..., Any], request: bytes, payload: Any, call: Call) -> Answer:
    """The answer to a request, waited for: for tests and notebooks, whose own loop may be running."""
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(asyncio.run, asked(function, payload, call)).result()
    return Answer(request, hash_of(encode(payload)), *answered(function.function, payload, found))


def _outcome(function: Function, arguments: tuple[Any, ...]) -> Any:
    """What it gives or raises: caught here, so that an error names the user's lines alone."""
    try:
        return function(*arguments)
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 (whatever user code raises is the answer)
        return error
    except BaseException as error:  # noqa: BLE001 (a thread that ends by it would answer nothing)
        return Stopped(f"it raised {type(error).__name__}: {error}")
