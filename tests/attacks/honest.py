"""An honest client of one job: posts a number every 20 ms and waits for it among the events; each is a line
of the report.

    python -m attacks.honest INLET OUTLET TOKEN REPORT

A process of its own, until it is told to end (SIGTERM). A post is due whatever became of the one before, and
its latency counts from then, so a job that holds the client up does not hide the wait of what stands behind.
A post without an answer is sent again under its key. The last line sums up: numbers that never came, came
twice, or out of order.
"""

import contextlib
import http.client
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from support.http.events import EventSource

EVERY = 0.02
PATIENCE = 2.0
"""Seconds for an answer, before the post is sent again."""
FOREIGN = 10**9
"""Numbers from here on are an attacker's."""
LAST = 20.0
"""Seconds to wait for what has not come at the end."""


class Listener(EventSource):
    """Knows when each number came first, and what came twice or behind a later one."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.came: dict[int, float] = {}
        self.doubled = self.disorder = 0
        self._highest = -1
        self.fresh = threading.Condition()

    def _event(self, block: str) -> None:
        before = len(self.data)
        super()._event(block)
        for number in self.data[before:]:
            if not isinstance(number, int) or number >= FOREIGN:
                continue
            with self.fresh:
                self.doubled += number in self.came
                self.disorder += number < self._highest
                self._highest = max(self._highest, number)
                self.came.setdefault(number, time.monotonic())
                self.fresh.notify_all()


class Client:
    """Posts one after the other over a connection that it keeps while it can."""

    def __init__(self, inlet: int, token: str, name: str) -> None:
        self._inlet, self._token, self._name = inlet, token, name
        self._connection: http.client.HTTPConnection | None = None

    def post(self, number: int, stopped: threading.Event) -> bool:
        """Until it is durable; whether it is."""
        while not stopped.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._status(number) == 200:
                    return True
            self._connection = None
            stopped.wait(0.02)
        return False

    def _status(self, number: int) -> int:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._inlet, timeout=PATIENCE)
        headers = {"Idempotency-Key": f"{self._name}-{number}", "Authorization": f"Bearer {self._token}"}
        self._connection.request("POST", "/", f"honest {number}", headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status


def behind_of(report: Path) -> Path:
    """Where a client says, again and again, how many seconds its job is behind."""
    return report.with_suffix(".behind")


def main(inlet: int, outlet: int, token: str, report: Path) -> None:
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    behind = behind_of(report)
    client, due = Client(inlet, token, report.name), dict[int, float]()
    with Listener(outlet) as listener, report.open("w") as lines:
        start, number = time.monotonic(), 0
        while not stopped.is_set():
            when = start + number * EVERY
            stopped.wait(max(0.0, when - time.monotonic()))
            if client.post(number, stopped):
                due[number] = when
            number += 1
            waiting = EVERY * (len(due) - len(listener.came))
            behind.write_text(f"{max(waiting, time.monotonic() - when):.3f}\n")
        with listener.fresh:
            listener.fresh.wait_for(lambda: due.keys() <= listener.came.keys(), LAST)
        for each, when in due.items():
            came = listener.came.get(each)
            _line(lines, number=each, due=when, ms=None if came is None else round((came - when) * 1e3, 2))
        _line(
            lines,
            lost=len(due.keys() - listener.came.keys()),
            doubled=listener.doubled,
            disorder=listener.disorder,
        )


def _line(file: Any, **fields: Any) -> None:
    file.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
