"""The queries of Nexmark as graphs of an application, `q0` to `q22`, over events as JSON lines."""

import msgspec
from nexmark.events import Event
from nexmark.queries import QUERIES, graph_of

import flamestream as fs

_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def decoded(line: str) -> Event:
    return _decoder.decode(line)


def __getattr__(name: str) -> fs.Graph:
    """A graph when it is asked for: a job runs one of them."""
    if name in QUERIES:
        return graph_of(name, decode=decoded)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
