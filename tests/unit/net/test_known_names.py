"""Names stay known when the name service is gone, and a moved server is found."""

import socket
import threading
from typing import Any

import pytest

from flamestream.net import known_names
from flamestream.net.dial import Dial, Dialer
from flamestream.net.handshake import Limits, Purpose
from flamestream.net.known_names import lookup
from flamestream.net.tls import LinkKey
from support.loops import reactor, turn_until


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the name service says next; an exception is raised."""
    said: list[Any] = []

    def getaddrinfo(*_: object, **__: object) -> Any:
        answer = said.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, 1))]

    monkeypatch.setattr(known_names, "_known", {})
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return said


def test_a_known_name_is_not_asked_for(answers: list[Any]) -> None:
    answers.append("10.0.0.1")
    lookup("name", 1)
    assert lookup("name", 1, anew=False)[0][4] == ("10.0.0.1", 1)


def test_a_name_asked_anew_may_have_moved(answers: list[Any]) -> None:
    answers += ["10.0.0.1", "10.0.0.2"]
    lookup("name", 1)
    assert lookup("name", 1)[0][4] == ("10.0.0.2", 1)


def test_a_known_name_that_moved_is_known_anew_however_many_are_known(
    answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_names, "MOST", 1)
    answers += ["10.0.0.1", "10.0.0.2"]
    lookup("name", 1)
    lookup("name", 1)
    assert lookup("name", 1, anew=False)[0][4] == ("10.0.0.2", 1)


def test_what_is_known_stands_while_nobody_answers(answers: list[Any]) -> None:
    answers += ["10.0.0.1", socket.gaierror("no answer")]
    lookup("name", 1)
    assert lookup("name", 1)[0][4] == ("10.0.0.1", 1)


def test_a_name_that_was_never_found_is_an_error(answers: list[Any]) -> None:
    answers.append(socket.gaierror("no answer"))
    with pytest.raises(socket.gaierror):
        lookup("name", 1)


def test_a_name_service_that_does_not_answer_holds_up_no_helper_and_is_asked_once_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dials ask every two seconds, a resolver whose server is gone holds on for half a minute: all helpers
    would be with it."""
    answer, asked = threading.Event(), list[str]()

    def getaddrinfo(host: str, port: int, *_: object, **how: Any) -> Any:
        if how.get("flags"):
            raise socket.gaierror("it is a name")
        asked.append(host)
        answer.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))]

    monkeypatch.setattr(known_names, "_known", {})
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with reactor() as loop:
        dialers = [Dialer(loop, ("sink", 9), lambda _: None) for _ in range(4)]
        for dialer in dialers:
            dialer.dial()
        dials = [
            Dial(
                loop,
                "peer:9",
                (Purpose("p", "j", 1, 1, "a", "b"), LinkKey(b"key")),
                lambda _: None,
                Limits(1, 1),
            )
            for _ in range(4)
        ]
        turn_until(loop, lambda: set(asked) == {"sink", "peer"}, "both names are asked for")
        done: list[object] = []
        loop.background(lambda: "an upload", done.append)
        turn_until(loop, lambda: done == ["an upload"], "a helper is free")
        for dialer in dialers:
            dialer.broken("no connection within 2 s")
        turn_until(loop, lambda: len(asked) >= 2, "dialled again")
        assert sorted(asked) == ["peer", "sink"]
        answer.set()
        for dialer in dialers:
            dialer.cancel()
        for dial in dials:
            dial.cancel()
