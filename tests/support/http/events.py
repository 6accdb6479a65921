"""A client of server-sent events as a browser is one: it keeps the last id, and comes back with it whatever
happens."""

import contextlib
import http.client
import json
import threading
from contextlib import closing
from typing import Any, Self


class EventSource:
    """Reads in a thread, from the first event on. `ids` and `data` grow; `problems` are what the server could not
    read."""

    def __init__(self, port: int, path: str = "/events", last: str = "") -> None:
        self.data: list[Any] = []
        self.ids: list[str] = []
        self.problems: list[str] = []
        self.connections = 0
        self.last = last
        self._port, self._path = port, path
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._read()
            self._stopped.wait(0.05)

    def _read(self) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=0.2)) as connection:
            connection.request("GET", self._path, headers={"Last-Event-ID": self.last} if self.last else {})
            sock = connection.sock
            with closing(connection.getresponse()) as answer:
                assert answer.status == 200, answer.read()
                self.connections += 1
                rest = b""
                while not self._stopped.is_set():
                    try:
                        part = answer.read1(1 << 16)
                    except TimeoutError:
                        answer.fp.raw._timeout_occurred = False  # type: ignore[attr-defined]  # a stream may be silent
                        continue
                    if not part:
                        return
                    *blocks, rest = (rest + part).split(b"\n\n")
                    for block in blocks:
                        self._event(block.decode())
            del sock

    def _event(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        self.last = fields.get("id", self.last)
        if "event" in fields:
            self.problems.append(fields["data"])
        elif "data" in fields:
            self.ids.append(self.last)
            self.data.append(json.loads(fields["data"]))
