"""A sink that POSTs to a server of the user's. What it can promise depends on what the server does, so the
manifest says which it is:

| `contract`   | the server keeps                  | guarantee     | why |
|--------------|-----------------------------------|---------------|-----|
| `fenced`     | each slot's fence and last bundle | exactly-once  | it refuses an older attempt, and says what it has |
| `idempotent` | the ids of items it has taken     | at-least-once | a repeated item has the same id and bytes |

Under `idempotent` the server can drop what is repeated; but nobody keeps out a replaced worker.

`fenced` begins with a question that only such a server answers (docs/reference/http.md), so a server that is
none is found out before the first item. An id is made of job, sink and the item's place in the total order,
which is the same whenever it is computed again.

Answers: 2xx taken, 409 a newer attempt has the slot, other 4xx the job ends and says so; everything else
(5xx, 408, 425, 429, no answer) is tried again, with the same bytes, until it is taken.

Keeps: one call in flight; what is acknowledged was answered with 2xx. Does not: follow redirects, or know
logins other than a token.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
import urllib3

from flamestream.connectors.kit.contexts import TRACEPARENT, context_of
from flamestream.connectors.kit.item_columns import plain
from flamestream.connectors.kit.ledger import Ledger
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.fenced.log import AtSlot, OfBundle
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, Fenced, UserError
from flamestream.model.ids import NO_FENCE, Fence, SinkName, Slot, WorkerId
from flamestream.model.payload import decode_items
from flamestream.model.quoted import quoted

PROTOCOL: Final = 1
CONNECT_SECONDS: Final = 5.0
TRY_AGAIN: Final = frozenset({408, 425, 429})

_json: Final = msgspec.json.Encoder().encode


class _Last(msgspec.Struct, frozen=True):
    slot: AtSlot
    sequence: OfBundle
    t_last: str
    items: str


class _Opened(msgspec.Struct, frozen=True):
    flamestream: int
    last: list[_Last]


@dataclass(frozen=True, slots=True)
class HttpPlace:
    """The server to POST to, and what may be believed of it."""

    url: str
    contract: Literal["fenced", "idempotent"]
    timeout_seconds: float
    batch: int
    """IDEMPOTENT: items in a request. With 1 the request itself has the item's id as Idempotency-Key."""
    headers: dict[str, str]
    traceparent: bool = False
    """Whether contexts of traces are told."""


class HttpWriting:
    """`kit.blocking.Blocking`."""

    def __init__(self, place: HttpPlace, job: str, sink: SinkName, writer: WorkerId) -> None:
        self._place, self._job, self._sink, self._writer = place, job, sink, writer
        self._fenced = place.contract == "fenced"
        self._pool = urllib3.PoolManager(
            maxsize=1,
            # The queue tries again, and says so in `status`; urllib3 would do it in silence.
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=place.timeout_seconds),
        )
        self._fence: Fence = NO_FENCE
        self._ledger = Ledger()
        self._taken = 0
        """IDEMPOTENT: items of the delivery at hand that were answered."""
        self._number = 0

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        self._fence, self._taken, self._number = action.fence, 0, 0
        if not self._fenced:
            self._ledger = Ledger()
            return {}
        question = {
            "flamestream": PROTOCOL,
            "open": {**self._who(), "writer": self._writer, "slots": list(action.slots)},
        }
        body = self._post(_json(question))
        try:
            opened = from_json(body, _Opened)
            last = {bundle.slot: _last_bundle(bundle) for bundle in opened.last}
        except ValueError as error:
            what = (
                f"{self._place.url} does not keep the contract `fenced`: it answered {body[:200]!r} to the "
                f"question what it has ({error})"
            )
            raise UserError(
                f"{what}; see docs/reference/http.md, or choose `contract: "
                "idempotent` with guarantee: at-least-once"
            ) from None
        self._ledger = Ledger(last)
        return last

    def deliver(self, action: Deliver) -> None:
        if action.fence != self._fence:
            raise Fenced(f"delivery {action.number} is of {action.fence}, opened was {self._fence}")
        if self._fenced:
            self._deliver_fenced(action)
        else:
            self._deliver_items(action)

    def close(self) -> None:
        self._pool.clear()

    # --- the two contracts ----------------------------------------------------------------------------------

    def _deliver_fenced(self, action: Deliver) -> None:
        fresh = self._ledger.check(action.bundles)
        if fresh:
            metas = (meta for bundle in fresh for meta, _ in decode_items(bundle.items))
            contexts = self._contexts(action, metas)
            self._post(
                _json(
                    {
                        "flamestream": PROTOCOL,
                        "deliver": {**self._who(), "bundles": [self._bundle(bundle) for bundle in fresh]},
                    }
                ),
                _header([*contexts.values()]),
            )
            self._ledger.take(fresh)

    def _deliver_items(self, action: Deliver) -> None:
        """Items that were answered before a failure are not sent again by this worker; another one may do so,
        with the same ids."""
        if action.number != self._number:
            self._number, self._taken = action.number, 0
        items = self._items(action)
        while self._taken < len(items):
            part = items[self._taken : self._taken + self._place.batch]
            one = {"idempotency-key": str(part[0]["id"])} if self._place.batch == 1 else {}
            contexts = [str(item[TRACEPARENT]) for item in part if TRACEPARENT in item]
            self._post(_json({"items": part}), {**one, **_header(contexts)})
            self._taken += len(part)

    def _items(self, action: Deliver) -> list[dict[str, Any]]:
        decoded = [(bundle.slot, decode_items(bundle.items)) for bundle in action.bundles]
        contexts = self._contexts(action, [meta for _, items in decoded for meta, _ in items])
        return [
            {"id": f"{self._job}/{self._sink}/{meta.hex()}", "slot": slot, "payload": plain(payload)}
            | ({TRACEPARENT: contexts[meta]} if meta in contexts else {})
            for slot, items in decoded
            for meta, payload in items
        ]

    def _contexts(self, action: Deliver, metas: Iterable[bytes]) -> dict[bytes, str]:
        """The contexts of items that are traced, where they are told."""
        if not self._place.traceparent or not action.traces:
            return {}
        found = [(meta, context_of(action.traces, meta)) for meta in metas]
        return {meta: context for meta, context in found if context is not None}

    def _bundle(self, bundle: Bundle) -> dict[str, Any]:
        return {
            "slot": bundle.slot,
            "sequence": bundle.sequence,
            "t_last": bundle.t_last.hex(),
            "items": base64.b64encode(bundle.items).decode(),
            "payloads": [plain(payload) for _, payload in decode_items(bundle.items)],
        }

    def _who(self) -> dict[str, Any]:
        return {
            "job": self._job,
            "sink": self._sink,
            "attempt": self._fence.attempt,
            "layout": self._fence.layout,
        }

    # --- one request ----------------------------------------------------------------------------------------

    def _post(self, body: bytes, more: dict[str, str] | None = None) -> bytes:
        headers = {"content-type": "application/json", **self._place.headers, **(more or {})}
        try:
            answer = self._pool.request("POST", self._place.url, body=body, headers=headers, redirect=False)
        except urllib3.exceptions.LocationParseError as error:
            raise UserError(f"{self._place.url}: {error}") from None
        except urllib3.exceptions.HTTPError as error:
            # An OSError: the same bytes are sent again until there is an answer.
            raise ConnectionError(f"{self._place.url}: {error}") from None
        status, told = answer.status, quoted(answer.data[:500].decode("utf-8", "replace"))
        if 200 <= status < 300:
            return answer.data
        if status == 409 and self._fenced:
            raise Fenced(f"{self._place.url}: {told}")
        if status == 410 and self._fenced:
            raise Corrupt(f"{self._place.url} has lost what it had: {told}")
        if status >= 500 or status in TRY_AGAIN:
            raise ConnectionError(f"{self._place.url} answers {status}: {told}")
        raise UserError(f"{self._place.url} refuses what it is sent, with {status}: {told}")


def _header(contexts: Sequence[str]) -> dict[str, str]:
    """A request has one context: the first of its items' (!), for a header can say no more."""
    return {TRACEPARENT: contexts[0]} if contexts else {}


def _last_bundle(told: _Last) -> LastBundle:
    return LastBundle(told.sequence, bytes.fromhex(told.t_last), base64.b64decode(told.items))
