"""Jobs for the simulator that ask the outside: whatever it says, each request is answered once, and what the
answers lead to is what the reference makes of them.

What follows a call depends on the order of its answers, so an answer that a replay asked for again, lost or
doubled ends in other bytes.
"""

from itertools import takewhile
from random import Random
from typing import Any
from zlib import crc32

from flamestream.model.calls.call import CallFunction, CallSettings
from flamestream.model.duration import Micros
from flamestream.model.graph import Graph
from flamestream.model.stream import Stream
from flamestream.model.windows.shapes import tumbling
from flamestream.simulation.graphs import (
    DEAD_LETTERS,
    LETTERS,
    Payload,
    SimJob,
    concatenation,
    digest,
    key_of,
    rekey,
    same,
    scatter,
)


def asking_job(rng: Random) -> SimJob:
    """Any of these."""
    return rng.choice([call_job, call_job, timed_call_job, loop_job])(rng)


def call_job(rng: Random) -> SimJob:
    """A job with one call or two, one behind the other, between stages that take items across workers."""
    return _job(rng, rng.choice(["again", "again", "never"]))


def once_job(rng: Random) -> SimJob:
    """Calls that are made once at most."""
    return _job(rng, "never")


def again_job(rng: Random) -> SimJob:
    """Calls that are made once at least."""
    return _job(rng, "again")


def loop_job(rng: Random) -> SimJob:
    """A loop through a call or two: about two of three answers are asked about again, up to a few times."""
    return _loop(rng, rng.choice(["again", "again", "never"]))


def again_loop_job(rng: Random) -> SimJob:
    """Such a loop, with calls that are made once at least."""
    return _loop(rng, "again")


def _loop(rng: Random, doubt: Any) -> SimJob:
    graph = Graph("call-loops")
    stream: Stream[Any] = graph.source("s0")
    again = graph.loop("again", max_iterations=rng.randint(1, 3))
    stream = stream.merge(again)
    for name in ("first", "second")[: rng.choice([1, 1, 2])]:
        if rng.random() < 0.5:
            stream = rng.choice([scatter, rekey, concatenation])(rng, stream)
        stream = stream.call(drawn_call(rng, doubt), key=key_of, name=name)
    if rng.random() < 0.5:
        stream = concatenation(rng, stream)
    stream.sink("each", key=key_of)
    back = stream.filter(_goes_round)
    again.close(scatter(rng, back) if rng.random() < 0.5 else back)
    concatenation(rng, stream.filter(lambda payload: not _goes_round(payload))).sink("out", key=same)
    return SimJob(graph, DEAD_LETTERS, _record, 1)


def _goes_round(payload: Payload) -> bool:
    return crc32(payload[1].encode()) % 3 > 0


def timed_call_job(rng: Random) -> SimJob:
    """Calls whose results have event time: windows over these, which close when the last has told its end,
    and calls that ask about windows."""
    graph = Graph("timed-calls", step=f"{rng.choice([1, 5])}s", shards=rng.choice([1, 3]))
    stream: Stream[Any] = graph.source("s0")
    for name in ("first", "second")[: rng.choice([1, 1, 2])]:
        late, idle = f"{rng.choice([0, 5, 50])}s", rng.choice(["1h", "20ms"])
        stream = stream.call(
            drawn_call(rng, "again"), key=key_of, name=name, at=_seconds, unit="s", late=late, idle=idle
        )
        windows = stream.window(tumbling("10s"), key=key_of).fold(initial=str, combine=_appended, emit=digest)
        windows.late.sink(f"late {name}", key=key_of)
        stream = windows.map(_windowed)
    stream.sink("out", key=key_of)
    return SimJob(graph, DEAD_LETTERS, _record, 1)


def _seconds(payload: Payload) -> int:
    """Event time, in seconds: from the number that the record had, or the window."""
    return int("".join(takewhile(str.isdecimal, payload[1][1:])) or 0) // 10


def _appended(text: str, payload: Payload) -> str:
    return f"{text},{payload[1]}"


def _windowed(window: Any) -> Payload:
    return window.key, f"v{window.start}{window.value}"


def _job(rng: Random, doubt: Any) -> SimJob:
    graph = Graph("calls")
    stream: Stream[Any] = graph.source("s0")
    stream.sink("beside", key=key_of)
    for name in ("first", "second")[: rng.choice([1, 1, 2])]:
        if rng.random() < 0.5:
            stream = rng.choice([scatter, rekey, concatenation])(rng, stream)
        stream = stream.call(drawn_call(rng, doubt), key=key_of, name=name)
    concatenation(rng, stream).sink("out", key=same)
    return SimJob(graph, DEAD_LETTERS, _record, 1)


def drawn_call(rng: Random, doubt: Any) -> CallFunction[..., Any]:
    """A question to the simulated service."""
    settings = CallSettings(
        Micros(1_000), 1, concurrency=rng.choice([1, 3, 64]), pending=rng.choice([1, 3, 10_000]),
        order=rng.choice(["none", "key"]), doubt=doubt, fronts=rng.choice([1, 1, 2, 3]),
    )  # fmt: skip
    return CallFunction(_asked, settings)


def _asked(payload: Payload) -> Payload:
    raise AssertionError(f"the simulated service is asked instead of this, for {payload!r}")


def _record(rng: Random, number: int) -> Payload:
    return LETTERS[rng.randrange(4)], f"v{number}"
