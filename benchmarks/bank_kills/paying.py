"""Transfers between random accounts, some of which are refused, sent over HTTP until each request is taken."""

import contextlib
import http.client
import json
import time
from collections.abc import Sequence
from random import Random
from typing import Final

from bank_kills.beside import Beside

AT_ONCE: Final = 20
"""Transfers in a request."""
TIMEOUT: Final = 10.0


class Paying(Beside):
    """A producer that sends the next request when the last one was taken."""

    pause = 0.005

    def __init__(self, port: int, accounts: Sequence[int]) -> None:
        super().__init__()
        self.sent = 0
        self._rng, self._accounts = Random(1), accounts
        self._port = port
        self._body = ""

    def turn(self) -> None:
        """A request, which has a key of its own, so that it counts once however often it is sent."""
        while not self.pays():
            time.sleep(0.05)

    def pays(self) -> bool:
        """Whether the request was taken. Another one is made only then."""
        self._body = self._body or "\n".join(map(self._line, range(self.sent, self.sent + AT_ONCE)))
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)) as to:
            try:
                to.request("POST", "/", self._body, {"Idempotency-Key": str(self.sent)})
                answer = to.getresponse()
                said = answer.read()
            except (OSError, http.client.HTTPException):
                return False
        if answer.status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            return False
        if answer.status != http.HTTPStatus.OK:
            raise AssertionError(f"{answer.status} for transfers: {said.decode()}")
        self.sent, self._body = self.sent + AT_ONCE, ""
        return True

    def _line(self, number: int) -> str:
        source, target = self._rng.sample(self._accounts, 2)
        amount = self._rng.randrange(40_000)  # a few of them are more than there is
        return json.dumps({"id": number, "source": source, "target": target, "amount": amount})
