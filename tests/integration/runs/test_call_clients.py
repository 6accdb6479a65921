"""`call.http` in a caller's real process: one pool for all calls, whose idempotency keys, cookies and redirects
are those of one try, and what a function is told that asks for what there is not."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support import loops
from support.calls.asking import BEGINS, Asking, asking_with
from support.calls.http2 import http2_server
from support.ports import free_port

APPLICATION = f"""{BEGINS}
@asked
@fs.call(timeout="10s")
async def got(url, call):
    return (await call.http.get(url)).text

@asked
@fs.call(timeout="10s")
async def followed(url, call):
    return (await call.http.get(url, follow_redirects=True)).text

@asked
@fs.call(timeout="10s", retries=0)
async def followed_once(url, call):
    return (await call.http.get(url, follow_redirects=True)).text

@asked
@fs.call(timeout="10s", retries=2)
async def posted(url, call):
    reply = await call.http.post(url)
    if call.attempt < 3:
        raise OSError("not yet")
    return reply.text

@asked
@fs.call(timeout="10s", retries=3)
async def posted_twice(url, call):
    return [(await call.http.post(url)).text for _ in range(2)]

@asked
@fs.call(timeout="10s")
def plain(url, call):
    return call.http.get(url)

@asked
@fs.call(timeout="10s")
async def nowhere(name, call):
    return call.postgres(name)

@asked
@fs.call(timeout="10s", retries=0)
async def version(url, call):
    return (await call.http.get(url)).http_version
"""
NARROW = f"""{BEGINS}
@asked
@fs.call(timeout="100ms", retries=0, concurrency=1)
async def given_up(url, call):
    return (await call.http.get(url)).text

@asked
@fs.call(timeout="10s", concurrency=1)
async def got(url, call):
    return (await call.http.get(url)).text
"""


class Service(ThreadingHTTPServer):
    """It says of a request who asks: its key, its cookie. `/away` sends to another place, `/never` waits for
    the end of the test."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, away: str = "") -> None:
        self.away, self.ended = away, threading.Event()
        self.connections = 0
        self.asked: Counter[str] = Counter()
        super().__init__((address, 0), _Handler)
        self.url = f"http://{address.replace('127.0.0.1', 'localhost')}:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was given up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Service

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        if self.path == "/never":
            self.server.ended.wait()
        body = f"{self.headers['Idempotency-Key']} {self.headers['Cookie']}".encode()
        self.send_response(302 if self.path == "/away" else 200)
        self.send_header("Location", self.server.away)
        self.send_header("Set-Cookie", "customer=one")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """A test's output is the test's."""


@contextmanager
def serving(address: str = "127.0.0.1", away: str = "") -> Iterator[Service]:
    with Service(address, away) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with asking_with(
        tmp_path_factory.mktemp("job"), "asks_over_http", APPLICATION,
        cache={"redis": {"url": "redis://localhost:1"}},
    ) as made:  # fmt: skip
        yield made


def test_calls_share_the_connections_of_one_pool(asking: Asking) -> None:
    with serving() as service:
        for number in range(20):
            asking.make("got", f"{service.url}/{number}", number)
            asking.answers()
        assert (service.connections, service.asked.total()) == (1, 20)


def test_a_post_has_the_key_of_its_call_at_each_try_and_a_get_none(asking: Asking) -> None:
    with serving() as service:
        assert asking.result("posted", service.url).split()[0] == "posted-1"
        assert service.asked.total() == 3
        assert asking.result("got", service.url).split()[0] == "None"


def test_a_second_post_of_a_try_is_not_made_with_the_key_of_the_first(asking: Asking) -> None:
    with serving() as service:
        assert asking.error("posted_twice", service.url).startswith(
            "ClientMisused: this try has sent a request with its call's idempotency key already"
        )
        assert service.asked.total() == 1, "nor tried again: no other try could mend it"


def test_a_cookie_is_not_kept_for_the_next_request(asking: Asking) -> None:
    with serving() as service:
        asking.result("got", service.url)
        assert asking.result("got", service.url).split()[1] == "None"


def test_a_redirect_is_followed_where_a_request_says_so(asking: Asking) -> None:
    with serving("127.0.0.2") as other, serving(away=f"{other.url}/there") as service:
        asking.result("got", f"{service.url}/away")
        assert not other.asked
        asking.result("followed", f"{service.url}/away")
        assert other.asked == {"/there": 1}


@pytest.mark.parametrize("call", ["followed", "followed_once"])
def test_a_redirect_to_what_the_manifest_does_not_allow_is_refused(tmp_path: Path, call: str) -> None:
    """As one to the address where a cloud has its machines' credentials would be."""
    with serving("127.0.0.2") as other, serving(away=f"{other.url}/latest/meta-data") as service:
        allowed = (service.url.removeprefix("http://"),)
        with asking_with(tmp_path, f"asks_few_{call}", APPLICATION, allowed) as asking:
            place = other.url.removeprefix("http://")
            assert asking.error(call, f"{service.url}/away") == (
                f"NotAllowed: {place} is not in spec.egress: add it there if calls are to reach it"
            )
            assert asking.result("got", f"{service.url}/here")
        assert not other.asked


def test_a_try_that_is_given_up_gives_its_connection_back(tmp_path: Path) -> None:
    """There is one for each call that may run: two here."""
    with serving() as service, asking_with(tmp_path, "asks_narrowly", NARROW) as asking:
        for number in range(10):
            asking.make("given_up", f"{service.url}/never", number)
        assert {answer.error is None for answer in asking.answers(10)} == {False}
        assert asking.result("got", f"{service.url}/here")


def test_a_service_that_is_not_there_is_down(asking: Asking) -> None:
    """So requests wait, however the client wraps what the network said."""
    for number in range(5):
        asking.make("got", f"http://localhost:{free_port()}/", number)
    loops.turn_until(asking.loop, lambda: "is down" in asking.caller.problem, "trouble")
    assert "ConnectError" in asking.caller.problem


def test_http_2_is_spoken_where_the_server_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with http2_server(tmp_path) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        with asking_with(tmp_path, "asks_over_http_2", APPLICATION) as asking:
            for number in range(10):
                asking.make("version", server.url, number)
            assert {answer.results for answer in asking.answers(10)} == {("HTTP/2",)}
        assert server.connections == 1


def test_a_plain_function_is_told_to_be_async(asking: Asking) -> None:
    assert asking.error("plain", "http://localhost/").startswith(
        "ClientMisused: call.http is for async functions, and this is a plain one"
    )


@pytest.mark.parametrize("name", ["orders", "cache"])
def test_a_client_that_there_is_not_is_told_with_those_that_there_are(asking: Asking, name: str) -> None:
    assert asking.error("nowhere", name) == (
        f"ClientMisused: call.postgres({name!r}): spec.clients has no postgres client of this name: "
        "it has 'cache' (redis)"
    )
