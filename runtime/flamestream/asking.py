"""Asking: one try of a call, wherever it is made: in a worker's caller process, or in a test.

Does not: try again, or bound anything (node/calls/tries.py).
"""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import replace
from typing import Any, Final

from flamestream.model.calls.call import Answer, Call, CallFunction, answered, hash_of
from flamestream.model.calls.clients import NO_CLIENTS, ClientMisused, Clients
from flamestream.model.failure import said
from flamestream.model.payloads.codec import encode
from flamestream.model.vertex import Function


class Stopped(Exception):
    """A function raised what would stop more than itself: SystemExit, or a cancellation that nobody asked
    for."""


class Mismatch(Exception):
    """A function that takes a batch gave something else than a list of as many results."""


Submit = Callable[..., Future[Any]]
"""Runs a function with its arguments in a thread."""
CLIENTS: Final[ContextVar[Clients]] = ContextVar("flamestream.asking.clients", default=NO_CLIENTS)
"""Clients of calls that `answer_here` makes: a test's (flamestream.testing.clients)."""


async def asked(function: CallFunction[..., Any], payload: Any, call: Any, submit: Submit) -> Any:
    """Call a user's function: its result, or the exception that it raises. Payload and call may be lists, for
    a batch. A plain function runs in a thread."""
    users = function.function
    arguments = (payload, call) if function.takes_call else (payload,)
    try:
        if function.is_async:
            return await users(*arguments)
        made = await asyncio.wrap_future(submit(copy_context().run, _outcome, users, arguments))
        return await made if inspect.isawaitable(made) else made
    except Exception as error:  # noqa: BLE001 (whatever user code raises is the answer)
        return error
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # by its timeout
        return _stopped(error)


def answer_here(function: CallFunction[..., Any], request: bytes, payload: Any, call: Call) -> Answer:
    """The answer to a request, waited for: for tests and notebooks, whose own loop may be running."""
    together = function.settings.batch > 1
    call = replace(call, clients=CLIENTS.get(), keys=None if together else call.keys)
    given: tuple[Any, Any] = ([payload], [call]) if together else (payload, call)
    with ThreadPoolExecutor(2) as threads:  # the loop's, and the function's
        found = threads.submit(asyncio.run, asked(function, *given, threads.submit)).result()
    found = each_of(found, 1)[0] if together else found
    return Answer(request, hash_of(encode(payload)), *answered(function.function, payload, found))


def each_of(outcome: Any, count: int) -> list[Any]:
    """The outcome of each item of a batch, from what its function gave or raised. An exception in a result's
    place is that item's."""
    if isinstance(outcome, list) and len(outcome) == count:
        return outcome
    if not isinstance(outcome, Exception):
        told = f"a list of {len(outcome)}" if isinstance(outcome, list) else f"a {type(outcome).__name__}"
        outcome = Mismatch(f"a batch of {count} has a list of {count} results, and it gave {told}")
    return [outcome] * count


def _outcome(function: Function, arguments: tuple[Any, ...]) -> Any:
    """Call a function: its result, or the exception that it raises, which is caught here so that an error
    names the user's lines alone."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001 (whatever user code raises is the answer)
        return error
    except BaseException as error:  # noqa: BLE001 (a thread that ends by it would answer nothing)
        return _stopped(error)


def _stopped(error: BaseException) -> Stopped:
    return Stopped(f"it raised {type(error).__name__}: {said(error)}")


def awaitable_here(client: str) -> None:
    """Raises ClientMisused where nothing can be awaited: in the thread of a plain function."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ClientMisused(
            f"call.{client} is for async functions, and this is a plain one, which runs in a thread: write "
            "`async def`, or give it a client of its own"
        ) from None
