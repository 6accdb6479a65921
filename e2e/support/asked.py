"""A service that jobs under test call, in a pod of its own: what it does it does once for a key, and it fails now
and then, with an error, late, or in silence.

    python3 asked.py            GET /priced/VALUE with an Idempotency-Key; GET /effects: value and price by key
"""

import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EFFECTS: dict[str, tuple[str, int]] = {}
LOCK = threading.Lock()
MOODS = ["late", "error", "silent", *[""] * 57]


class Requests(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        _, what, *rest = self.path.split("/")
        if what == "effects":
            self._answer(200, EFFECTS)
            return
        with LOCK:
            _, price = EFFECTS.setdefault(self.headers["Idempotency-Key"], (rest[0], random.randrange(10**9)))
        mood = random.choice(MOODS)
        if mood == "silent":
            self.close_connection = True
            return
        if mood == "late":
            time.sleep(1)
        self._answer(503 if mood == "error" else 200, price)

    def _answer(self, status: int, what: object) -> None:
        data = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", 7003), Requests).serve_forever()  # the pod's
