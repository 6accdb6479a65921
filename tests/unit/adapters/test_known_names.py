"""Names stay known when the name service is gone, and a moved server is found."""

import socket
from typing import Any

import pytest

from flamestream.adapters import known_names
from flamestream.adapters.known_names import lookup


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
    monkeypatch.setattr(known_names.socket, "getaddrinfo", getaddrinfo)
    return said


def test_a_known_name_is_not_asked_for(answers: list[Any]) -> None:
    answers.append("10.0.0.1")
    lookup("name", 1)
    assert lookup("name", 1, anew=False)[0][4] == ("10.0.0.1", 1)


def test_a_name_asked_anew_may_have_moved(answers: list[Any]) -> None:
    answers += ["10.0.0.1", "10.0.0.2"]
    lookup("name", 1)
    assert lookup("name", 1)[0][4] == ("10.0.0.2", 1)


def test_what_is_known_stands_while_nobody_answers(answers: list[Any]) -> None:
    answers += ["10.0.0.1", socket.gaierror("no answer")]
    lookup("name", 1)
    assert lookup("name", 1)[0][4] == ("10.0.0.1", 1)


def test_a_name_that_was_never_found_is_an_error(answers: list[Any]) -> None:
    answers.append(socket.gaierror("no answer"))
    with pytest.raises(socket.gaierror):
        lookup("name", 1)
