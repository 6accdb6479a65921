"""Server-sent events against real clients: the consumer's contract, cursors, clients that are slow or wrong,
and a real browser."""

import http.client
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flamestream.connectors import sinks
from flamestream.connectors.http import events
from flamestream.core.protocol.actions import Bundle
from flamestream.fenced.tail import Given, Tail
from flamestream.model.ids import SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.payload import encode_items
from flamestream.ports import Consumer, Post, Reactor, Timer
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, SINK, Outside, Worker, bundle, fence
from flamestream.testing.port_driver import PortDriver
from support.http.events import EventSource
from support.ports import free_port


class Place:
    """An events sink in a folder."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.port, self.root = free_port(), folder / "out"
        self.spec = {
            "events": {
                "path": str(self.root),
                "listen": f"127.0.0.1:{self.port}",
                "fsync": False,
                "poll_ms": 1,
                **settings,
            }
        }

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        return [(slot, sequence, items) for slot, sequence, _, items in sinks.read_all(self.root)]


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Callable[[Outside], None], tmp_path: Path) -> None:
    check(Place(tmp_path))


def seen(driver: PortDriver, source: EventSource, *data: object) -> None:
    driver.until(lambda: len(source.data) >= len(data), f"{data}, not {source.data}")
    assert source.data == list(data)


def test_a_client_gets_everything_and_goes_on_where_it_was(driver: PortDriver, tmp_path: Path) -> None:
    place = Place(tmp_path)
    worker = Worker(place, "w1", driver)
    worker.open(fence(1), 0, 1)
    worker.deliver(fence(1), bundle(0, 1), bundle(1, 1))
    with EventSource(place.port) as source:
        seen(driver, source, "0/1", "1/1")
        worker.consumer.close()
        heir = Worker(place, "w2", driver)
        heir.open(fence(2), 0, 1)
        heir.deliver(fence(2), bundle(0, 2))
        seen(driver, source, "0/1", "1/1", "0/2")
    with EventSource(place.port, last=source.ids[0]) as again:
        seen(driver, again, "1/1", "0/2")


def test_from_now_only_what_comes_later(driver: PortDriver, tmp_path: Path) -> None:
    place = Place(tmp_path)
    worker = Worker(place, "w1", driver)
    worker.open(fence(1), 0)
    worker.deliver(fence(1), bundle(0, 1))
    with EventSource(place.port, "/events?from=now") as source:
        driver.until(lambda: bool(source.last), "the id of now")
        worker.deliver(fence(1), bundle(0, 2))
        seen(driver, source, "0/2")


def test_any_worker_serves_everything(driver: PortDriver, tmp_path: Path) -> None:
    place = Place(tmp_path)
    workers = [Worker(place, f"w{number}", driver) for number in range(3)]
    for number, worker in enumerate(workers):
        worker.open(fence(1), number)
        worker.deliver(fence(1), bundle(number, 1))
    for closed in (None, *workers[:2]):
        if closed is not None:
            closed.consumer.close()
        with EventSource(place.port) as source:
            driver.until(lambda source=source: len(source.data) == 3, "all")  # type: ignore[misc]  # bound at once


def test_a_client_that_does_not_read_holds_up_nobody(driver: PortDriver, tmp_path: Path) -> None:
    place = Place(tmp_path)
    worker = Worker(place, "w1", driver)
    worker.open(fence(1), 0)
    worker.deliver(fence(1), *(bundle(0, n, "x" * 100_000) for n in range(1, 101)))
    with socket.create_connection(("127.0.0.1", place.port)) as lazy:
        lazy.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        with EventSource(place.port) as source:
            driver.until(lambda: len(source.data) == 100, "the other client has all")
        worker.deliver(fence(1), bundle(0, 101))


def test_a_look_that_waits_is_no_reason_to_look_later(
    driver: PortDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, costs = [0.0], []

    def waits(_tail: Tail, _most: int, _size: int) -> list[Given]:
        clock[0] += 60.0
        return []

    def later(sink: events.EventsConsumer, cost: float, call: Callable[[], None]) -> Timer:
        costs.append(cost)
        return driver.reactor.later(0.001, call)

    now = SimpleNamespace(monotonic=lambda: clock[0], thread_time=lambda: 0.0)
    monkeypatch.setattr(events, "time", now)
    monkeypatch.setattr(Tail, "next", waits)
    monkeypatch.setattr(events.EventsConsumer, "later", later)
    place = Place(tmp_path)
    Worker(place, "w1", driver).open(fence(1), 0)
    with EventSource(place.port):
        driver.until(lambda: len(costs) > 2, "some looks")
    assert set(costs) == {0.0}


@pytest.mark.parametrize(
    ("method", "path", "last", "status", "says"),
    [
        ("GET", "/", "", 404, "there is only /events"),
        ("PUT", "/events", "", 405, "only GET"),
        ("GET", "/events", "nonsense", 400, "no"),
    ],
)
def test_bad_requests_are_told_why(
    driver: PortDriver, tmp_path: Path, method: str, path: str, last: str, status: int, says: str
) -> None:
    place = Place(tmp_path)
    Worker(place, "w1", driver).open(fence(1), 0)
    with closing(http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)) as connection:
        connection.request(method, path, headers={"Last-Event-ID": last} if last else {})
        driver.settle(20)
        answer = connection.getresponse()
        body = answer.read().decode()
    assert (answer.status, says in body) == (status, True)


def test_payloads_are_json(driver: PortDriver, tmp_path: Path) -> None:
    place = Place(tmp_path)
    worker = Worker(place, "w1", driver)
    worker.open(fence(1), 0)
    meta = b"\0" * 8 + b"\1"
    worker.deliver(
        fence(1),
        Bundle(Slot(0), SequenceNumber(1), meta, encode_items([(meta, ("a\nb", None, 1.5, (True,)))])),
    )
    with EventSource(place.port) as source:
        seen(driver, source, ["a\nb", None, 1.5, [True]])


PAGE = """<!doctype html><ul id=list></ul><script>
const source = new EventSource(EVENTS);
source.onmessage = event => { const item = document.createElement("li"); item.textContent = JSON.parse(event.data); list.append(item); };
</script>"""  # noqa: E501


@pytest.mark.slow
def test_a_real_browser_sees_each_event_once_while_workers_die(driver: PortDriver, tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs PyPI's playwright")
    if chromium is None:
        pytest.skip("needs Debian's chromium")
    place = Place(tmp_path, allow_origin="*")
    page_file = tmp_path / "page.html"
    page_file.write_text(PAGE.replace("EVENTS", f"'http://127.0.0.1:{place.port}/events'"))
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        page = browser.new_page()
        page.goto(page_file.as_uri())
        wanted: list[str] = []
        for attempt in range(1, 6):
            worker = Worker(place, f"w{attempt}", driver)
            worker.open(fence(attempt), 0)
            for sequence in range(3 * attempt - 2, 3 * attempt + 1):
                worker.deliver(fence(attempt), bundle(0, sequence))
                wanted.append(f"0/{sequence}")
            driver.until(lambda: page.locator("li").count() >= len(wanted), "the page shows it")
            worker.consumer.close()
        assert page.locator("li").all_inner_texts() == wanted
        browser.close()
