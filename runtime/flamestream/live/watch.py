"""A watch over all rows: the changes of a table as they are committed, each once, over a sink of events that the job
has.

    accounts.changes().sink("balances")              in the graph
    balances: {events: {path: ..., listen: ...}}     in the manifest
    job.table("accounts").watch()                    in a program

Keeps: behind the id of a change come those that follow it, whoever died in between. Does not: keep anything (the sink's
folder does).
"""

import http.client
import time
from collections.abc import Iterator
from typing import Any, Final

from flamestream.connectors.http.connector import EventsSpec
from flamestream.connectors.sinks import settings_of
from flamestream.job.manifest import Job as Manifest
from flamestream.live.kept_changes import Change
from flamestream.live.port import dialled
from flamestream.model.decoding import DecodeError, from_json
from flamestream.model.errors import ManifestError, Retryable
from flamestream.model.graph import Graph
from flamestream.model.tables.ledger import WritesTo

SILENCE: Final = 20.0
"""Seconds without a word, be it that nothing happens, after which the sink is asked anew."""
PAUSE: Final = 0.1
EVERY_ROW: Final = object()
"""Instead of a key."""
_GONE: Final = "the sink of changes does not answer"


class Watch:
    """The changes of one table, from the sink of events that they go to, with values as JSON has them."""

    def __init__(self, manifest: Manifest, graph: Graph, table: str, timeout: float) -> None:
        """Raises ManifestError if they go to none."""
        spec = _sink_of(manifest, graph, table)
        self._host, self._port = dialled(spec.listen)
        self._url, self._timeout = spec.url, timeout

    def changes(self, key: Any, after: str) -> Iterator[Change]:
        """Those behind the id `after`, as they come; of one key, or of EVERY_ROW. Raises Retryable if nobody answers
        within the time."""
        since = time.monotonic()
        while True:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=SILENCE)
            try:
                for number, text in _events(connection, self._url, after):
                    since, after = time.monotonic(), number
                    write = from_json(text)
                    if key is EVERY_ROW or write["key"] == key:
                        yield Change(number, write["key"], write["before"], write["after"], write["deleted"])
            except (OSError, http.client.HTTPException, DecodeError) as error:
                if time.monotonic() - since > max(self._timeout, SILENCE):
                    raise Retryable(f"{_GONE} at {self._host}:{self._port}: {error}") from error
                time.sleep(PAUSE)  # another worker takes the port over
            finally:
                connection.close()


def _events(connection: http.client.HTTPConnection, url: str, after: str) -> Iterator[tuple[str, str]]:
    """The id and the text of each event, to the end of the connection."""
    connection.request("GET", url, headers={"Last-Event-ID": after} if after else {})
    answer = connection.getresponse()
    if answer.status != http.HTTPStatus.OK:
        raise http.client.HTTPException(f"status {answer.status}")
    number = text = kind = ""
    for line in answer:
        word, _, value = line.decode().rstrip("\n").partition(": ")
        if word == "id":
            number = value
        elif word == "event":
            kind = value
        elif word == "data":
            text = value
        elif not word and kind:
            # what the sink could not read: it ends the connection, too
            raise http.client.HTTPException(f"{kind}: {text}")
        elif not word and text:
            yield number, text
            text = ""
    raise http.client.HTTPException("the connection has ended")


def _sink_of(manifest: Manifest, graph: Graph, table: str) -> EventsSpec:
    """The settings of the sink of events that a table's changes go to, as they are."""
    of_table = [
        vertex
        for vertex in graph.vertices
        if isinstance(vertex.function, WritesTo) and vertex.function.table == table
    ]
    sinks = {graph.vertices[output].name for vertex in of_table for output in vertex.outputs}
    for name in sorted(sinks & manifest.spec.sinks.keys()):
        spec = settings_of(manifest.sink(name), f"spec.sinks.{name}")
        if isinstance(spec, EventsSpec):
            return spec
    raise ManifestError(
        f"no sink of events has the changes of {table!r}: for one row keep_changes() of the table is enough; for all "
        "add changes().sink(NAME) of it to the graph, and NAME: {events: {path: FOLDER, listen: HOST:PORT}} to "
        "spec.sinks"
    )
