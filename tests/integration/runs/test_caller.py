"""The caller of a worker, with its real process: functions that fail, hang, ignore that they are cancelled,
block the loop, give too much, or take the process with them."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from flamestream.model.quoted import public
from flamestream.node.calls import caller
from flamestream.node.calls.process import CallerConfig
from support import loops
from support.calls.asking import BEGINS, MOST, Asking, closed
from support.processes import alive

APPLICATION = (
    BEGINS
    + """
import os, resource, signal, socket, threading, time

@asked
@fs.call(timeout="10s")
async def doubled(item):
    return 2 * item

@asked
@fs.call(timeout="10s")
def in_a_thread(item, call):
    return threading.current_thread() is not threading.main_thread(), call.attempt

@asked
@fs.call(timeout="10s", retries=2)
async def third_time(item, call):
    if call.attempt < 3:
        raise OSError("not yet")
    return call.attempt

@asked
@fs.call(timeout="10s", retries=3, retry_on=OSError)
async def wrong(item):
    raise KeyError(item)

@asked
@fs.call(timeout="10s", give_up_after="500ms")
async def given_up(item, call):
    raise ValueError(call.attempt)

@asked
@fs.call(timeout="50ms", retries=1)
async def hangs(item):
    await asyncio.sleep(1000)

@asked
@fs.call(timeout="50ms", retries=0)
async def ignores(item):
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass

@asked
@fs.call(timeout="50ms", retries=0)
def never_returns(item):
    time.sleep(1000)

@asked
@fs.call(timeout="10s", retries=3)
async def served(item):
    if not os.path.exists(item):
        raise ConnectionRefusedError("port 80")
    return item

@asked
@fs.call(cache="1h")
async def drawn(item):
    return os.urandom(8)

@asked
@fs.call(batch=3, linger="10s")
def together(items, calls):
    return [(item, len(items), call.id) for item, call in zip(items, calls)]

@asked
@fs.call(timeout="10s")
async def connects(place):
    reader, writer = await asyncio.open_connection(*place)
    writer.close()
    return place

@asked
@fs.call(timeout="10s")
def connects_by_name(place):
    import socket
    for found in (place[0], socket.gethostbyname(place[0])):
        with socket.socket() as connection:
            connection.connect((found, place[1]))

@asked
@fs.call(timeout="10s")
def looks_up(name):
    import socket
    return socket.gethostbyaddr(name)

@asked
@fs.call(timeout="10s")
def fetches(url):
    import urllib.request
    return urllib.request.urlopen(url, timeout=5).read().decode()

@asked
@fs.call(timeout="10s")
async def too_much(item):
    return "x" * item

@asked
@fs.call(timeout="10s", retries=1)
async def deadly(item):
    os.kill(os.getpid(), signal.SIGKILL)

leaked = []

@asked
@fs.call(timeout="10s")
async def leaks(item):
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    leaked.extend(socket.socket() for _ in range(20))
    return item

@asked
@fs.call
async def waits(item):
    await asyncio.sleep(0.3)
    return item

@asked
@fs.call(retries=0)
async def leaves(item):
    raise SystemExit(3)

@asked
@fs.call(retries=0)
def leaves_a_thread(item):
    raise SystemExit(3)

@asked
@fs.call(retries=0)
async def cancels(item):
    raise asyncio.CancelledError("of a client")

@asked
@fs.call(timeout="10s", doubt="never")
async def deadly_once(item):
    os.kill(os.getpid(), signal.SIGKILL)
"""
)


@pytest.fixture
def asking(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Asking]:
    with (
        loops.reactor() as loop,
        closed(Asking(loop, tmp_path, f"asks_{abs(hash(request.node.name))}", APPLICATION)) as made,
    ):
        yield made


def test_an_answer_is_what_the_function_gives(asking: Asking) -> None:
    assert asking.answer("doubled", 21).results == (42,)


def test_a_plain_function_runs_in_a_thread(asking: Asking) -> None:
    assert asking.answer("in_a_thread", 1).results == ((True, 1),)


def test_what_fails_is_tried_again(asking: Asking) -> None:
    assert asking.answer("third_time", 1).results == (3,)


def test_what_no_other_try_could_mend_is_not(asking: Asking) -> None:
    assert asking.error("wrong") == "KeyError: 1"


def test_what_is_given_up_says_what_its_last_try_did(asking: Asking) -> None:
    error, _, tries = asking.error("given_up").partition(": ")
    assert (error, int(tries) > 2) == ("ValueError", True)


@pytest.mark.parametrize("call", ["hangs", "ignores", "never_returns"])
def test_a_try_has_its_time_whatever_it_does(asking: Asking, call: str) -> None:
    assert asking.error(call) == "TimeoutError: no answer within 0.05 s"
    assert asking.answer("doubled", 1).results == (2,), "others go on"


def test_an_answer_that_no_journal_takes_is_an_error(asking: Asking) -> None:
    assert asking.error("too_much", MOST).startswith("AnswerTooLarge: ")
    assert asking.answer("too_much", MOST // 2).error is None


def test_requests_of_many_bytes_are_sent_as_they_are_answered(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller, "MOST_OUT", 2_000)
    monkeypatch.setattr(caller, "MOST_SAID", 1_000)
    for number in range(20):
        asking.make("waits", f"{number:0>900}", number)
    loops.turn_until(asking.loop, lambda: bool(asking.caller._out), "the first are sent")
    assert asking.caller._out < 4_000
    assert len(asking.answers(20)) == 20


def test_a_process_that_dies_is_started_again_and_asked_again(asking: Asking) -> None:
    assert asking.answer("doubled", 1).results == (2,)
    before = asking.caller._process
    assert before is not None
    os.kill(before.pid, 9)
    assert asking.answer("doubled", 2).results == (4,)


def test_what_kills_its_process_again_and_again_is_given_up(asking: Asking) -> None:
    assert asking.error("deadly") == "CallerEnded: 3 callers ended (signal 9) while it was under way"
    assert asking.answer("doubled", 1).results == (2,)
    assert not asking.caller.problem


def test_one_whose_functions_leave_no_file_descriptor_ends_and_the_next_is_asked(asking: Asking) -> None:
    for number in range(8):
        asking.make("leaks", number, number)
    assert {answer.results for answer in asking.answers(8)} == {(number,) for number in range(8)}


def test_it_takes_no_other_request_with_it(asking: Asking) -> None:
    for number in range(5):
        asking.make("waits", number, number=number)
    asking.make("deadly", 1)
    for number in range(5, 10):
        asking.make("waits", number, number=number)
    failed = [answer.call for answer in asking.answers(11) if answer.error is not None]
    assert failed == ["deadly()"]


def end_two_processes_of(asking: Asking, call: str) -> None:
    """What kills its process comes twice while this call is asked."""
    asking.make(call, "innocent", number=9)
    for number in range(2):
        before = asking.caller._process
        asking.make("deadly", 1, number)
        loops.turn_until(asking.loop, partial(asking.asks_another, before), "another process")


def test_one_during_which_two_processes_ended_is_asked_alone(asking: Asking) -> None:
    end_two_processes_of(asking, "waits")
    asking.make("deadly", 1, number=2)
    failed = [answer.call for answer in asking.answers(4) if answer.error is not None]
    assert failed == ["deadly()"] * 3


def test_others_wait_for_it_for_a_while_only(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "ALONE", 0.01)
    end_two_processes_of(asking, "waits")
    asking.make("doubled", 1)
    assert asking.answers()[0].call == "doubled()"


@pytest.mark.parametrize("call", ["leaves", "leaves_a_thread", "cancels"])
def test_what_would_stop_more_than_itself_is_an_error_of_its_own(asking: Asking, call: str) -> None:
    assert asking.error(call).startswith("Stopped: it raised ")
    assert asking.answer("doubled", 1).results == (2,)


def test_what_is_made_once_at_most_is_in_doubt(asking: Asking) -> None:
    assert asking.error("deadly_once").startswith("InDoubt: ")


def test_a_newer_attempt_gets_the_answer_to_what_is_under_way(asking: Asking) -> None:
    asking.make("doubled", 1, attempt=1)
    asking.make("doubled", 1, attempt=2)
    (found,) = asking.answers()
    assert found.fence.attempt == 2


def test_a_service_that_is_down_is_told_while_its_requests_wait(asking: Asking, tmp_path: Path) -> None:
    place = tmp_path / "served"
    for number in range(5):
        asking.make("served", str(place), number)
    loops.turn_until(asking.loop, lambda: bool(asking.caller.problem), "trouble")
    assert public(asking.caller.problem) == (
        "the service of call served() is down (ConnectionRefusedError: (see the worker's log)): requests wait"
    )
    place.touch()
    assert {answer.results for answer in asking.answers(5)} == {(str(place),)}
    assert not asking.caller.problem


def test_equal_requests_are_asked_once_where_the_call_keeps_answers(asking: Asking) -> None:
    for number in range(5):
        asking.make("drawn", 1, number)
    assert len({answer.results for answer in asking.answers(5)}) == 1
    assert asking.answer("drawn", 2).results != asking.answer("drawn", 1).results


def test_a_function_that_takes_a_list_gets_the_requests_of_a_batch(asking: Asking) -> None:
    for number in range(3):
        asking.make("together", number * 10, number)
    assert {answer.results for answer in asking.answers(3)} == {
        ((number * 10, 3, f"together-{number}"),) for number in range(3)
    }


@pytest.fixture
def served_places() -> Iterator[tuple[str, str]]:
    """Two places over HTTP: one that says "here", or sends to the other."""
    with ExitStack() as stack:
        other = stack.enter_context(_serving("127.0.0.2", lambda path: (200, "there")))
        here = stack.enter_context(
            _serving(
                "127.0.0.1", lambda path: (302, f"http://{other}/") if path == "/away" else (200, "here")
            )
        )
        yield here.replace("127.0.0.1", "localhost"), other


@contextmanager
def _serving(address: str, says: Callable[[str], tuple[int, str]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = says(self.path)
            self.send_response(status)
            self.send_header("Location", text)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer((address, 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"{address}:{server.server_port}"
        server.shutdown()


def test_it_reaches_what_the_manifest_allows_and_nothing_else(
    tmp_path: Path, served_places: tuple[str, str]
) -> None:
    here, other = served_places
    host, port = other.split(":")
    with loops.reactor() as loop, closed(Asking(loop, tmp_path, "asks_few", APPLICATION, (here,))) as asking:
        assert asking.answer("fetches", f"http://{here}/").results == ("here",)
        refused = f"NotAllowed: {other} is not in spec.egress: add it there if calls are to reach it"
        assert asking.error("fetches", f"http://{here}/away") == refused, "wherever it is sent to"
        assert asking.error("connects", (host, int(port))) == refused
        assert asking.answer("connects_by_name", ("localhost", int(here.split(":")[1]))).error is None
        assert asking.error("looks_up", "nowhere.example").startswith("NotAllowed: nowhere.example ")
        assert asking.error("fetches", "http://nowhere.example/").startswith(
            "NotAllowed: nowhere.example:80 "
        )
    with loops.reactor() as loop, closed(Asking(loop, tmp_path, "asks_any", APPLICATION)) as asking:
        assert asking.answer("fetches", f"http://{here}/away").results == ("there",)


def test_its_process_ends_with_it(asking: Asking) -> None:
    process = asking.caller._process
    assert process is not None
    asking.caller.close()
    assert not alive(process.pid)


def test_its_configuration_is_one_frame() -> None:
    config = CallerConfig(application="a.py", graph="g", job="j", worker="w", parent=1, most=2)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(config), type=CallerConfig) == config
