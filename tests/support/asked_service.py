"""A service over HTTP as they are: it answers late, with an error, with what is no answer, and not at all. It
keeps what it did by the key of the request: who asks twice with one key gets one effect."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOODS = {"late": 0.02, "error": 0.02, "garbage": 0.01, "never": 0.01}
"""How often it does what, once it has done what was asked for."""


class AskedService:
    """`GET /VALUE` with an Idempotency-Key. It can be stopped, and started again with what it knew."""

    def __init__(self, moods: Mapping[str, float]) -> None:
        self.moods = moods
        self.shown: Counter[str] = Counter()
        """How often it was in which mood."""
        self.asked: Counter[str] = Counter()
        """How often, by key."""
        self.effects: dict[str, tuple[str, float]] = {}
        """What it did once for a key: for which value, and the number that it drew."""
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    def start(self) -> None:
        """On the port that it had, if it had one."""
        self._server = _Server(("127.0.0.1", self.port), self._handler())
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Nobody is there any more."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def restart(self) -> None:
        """Gone and back."""
        self.stop()
        self.start()

    def done(self, key: str, value: str) -> tuple[str, float]:
        """The effect of a request, which happens once."""
        with self._lock:
            self.asked[key] += 1
            return self.effects.setdefault(key, (value, random.random()))

    def mood(self) -> str:
        """How it takes the next request; "" as it should."""
        with self._lock:
            (found,) = random.choices(["", *self.moods], [1 - sum(self.moods.values()), *self.moods.values()])
            self.shown[found] += 1
        return found

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                _, drawn = service.done(self.headers["Idempotency-Key"], self.path[1:])
                mood = service.mood()
                if mood == "never":
                    self.close_connection = True
                    return
                if mood == "late":
                    time.sleep(0.1)
                body = b"{" if mood == "garbage" else json.dumps(drawn).encode()
                self.send_response(503 if mood == "error" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """A test's output is the test's."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed."""


@contextmanager
def asked_service(moods: Mapping[str, float] = MOODS) -> Iterator[AskedService]:
    """One that ends with the test."""
    service = AskedService(moods)
    try:
        yield service
    finally:
        service.stop()
