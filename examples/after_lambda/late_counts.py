"""Hits of each page by the minute and those that came too late to be counted; beside it, where they are from.

Which hit is late depends on what came before it, and which country an address is in a service alone knows.
Both are decided once, and a replay finds the same. No count waits for an answer.
"""

from datetime import datetime
from urllib.request import Request, urlopen

import msgspec

import flamestream as fs

SERVICE = "http://127.0.0.1:8008"


@fs.event
class Hit:
    page: str
    address: str
    at: datetime


@fs.event
class Located:
    address: str
    country: str
    at: datetime


@fs.call(timeout="5s", fronts=2)  # two workers share the calls
def located(hit: Hit, call: fs.Call) -> Located:
    request = Request(f"{SERVICE}/country/{hit.address}", headers={"Idempotency-Key": call.id})
    with urlopen(request, timeout=5) as reply:
        return Located(hit.address, msgspec.json.decode(reply.read(), type=str), hit.at)


graph = fs.Graph("late-counts")
hits = graph.source("hits", Hit, at="at", late="30s")
counts = hits.window(fs.tumbling("1m"), key="page").count()
counts.sink("counts", key="key")
counts.late.sink("late", key="page")
places = hits.call(located, key="address", at="at", late="1h")
places.window(fs.tumbling("1h"), key="country").count().sink("countries", key="key")
