"""The service of the examples with calls keeps what it says of itself."""

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from support.calls.asked_service import AskedService, asked_service


def ask(service: AskedService, key: str, item: str = "pen") -> bytes:
    """One request over a connection of its own."""
    request = Request(f"http://127.0.0.1:{service.port}/price/{item}", headers={"Idempotency-Key": key})
    with urlopen(request, timeout=10) as reply:
        return bytes(reply.read())


@pytest.fixture
def service(tmp_path: Path) -> Iterator[AskedService]:
    with asked_service(tmp_path, {}) as made:
        yield made


def test_who_asks_again_gets_the_same_also_behind_its_death(service: AskedService) -> None:
    first = ask(service, "a")
    service.restart()
    assert (ask(service, "a"), len(service.log().effects["a"]), service.requests()) == (first, 1, 2)


def test_it_forgets_when_it_is_told_to_and_does_it_again(service: AskedService) -> None:
    ask(service, "a")
    service.forget()
    service.restart()
    ask(service, "a")
    ask(service, "a")
    assert len(service.log().effects["a"]) == 2


def test_the_second_answer_meets_the_next_request_of_its_connection(tmp_path: Path) -> None:
    with asked_service(tmp_path, {"twice": 1.0}) as service:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
        keys = []
        for key in "abcdefghij":
            connection.request("GET", "/price/pen", headers={"Idempotency-Key": key})
            reply = connection.getresponse()
            reply.read()
            keys.append(reply.headers["Idempotency-Key"])
        connection.close()
    assert keys[0] == "a"
    assert keys != list("abcdefghij")


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("error", HTTPError),
        ("short", http.client.IncompleteRead),
        ("never", http.client.RemoteDisconnected),
    ],
)
def test_who_gets_no_answer_has_its_effect(tmp_path: Path, fault: str, seen: type[Exception]) -> None:
    with asked_service(tmp_path, {fault: 1.0}) as service:
        with pytest.raises(seen):
            ask(service, "a")
        assert [effect.item for effect in service.log().effects["a"]] == ["pen"]


@pytest.mark.parametrize(("fault", "said"), [("broken", b"{"), ("other", b'{"said": "as you like"}')])
def test_an_answer_may_be_none(tmp_path: Path, fault: str, said: bytes) -> None:
    with asked_service(tmp_path, {fault: 1.0}) as service:
        assert ask(service, "a") == said


def test_which_request_meets_which_fault_is_the_same_in_every_run(tmp_path: Path) -> None:
    found, wrong = [], (b"{", b'{"said": "as you like"}')
    for run in ("1", "2"):
        (tmp_path / run).mkdir()
        with asked_service(tmp_path / run, {"other": 0.3, "broken": 0.3}) as service:
            found.append([ask(service, f"{number % 20}") in wrong for number in range(40)])
    assert found[0] == found[1]
    assert 5 < sum(found[0]) < 35
