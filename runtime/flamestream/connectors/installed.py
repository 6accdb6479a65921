"""The connectors there are: those of this package, and those that other installed packages add by an entry
point.

    [project.entry-points."flamestream.connectors"]
    shelf = "my_package:SHELF"

Keeps: a kind is one thing only: a package that brings one of a name that is taken is refused. Does not: know
what a kind does.
"""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from flamestream.connectors.files.connector import FILES, PARQUET
from flamestream.connectors.http.connector import EVENTS, HTTP
from flamestream.connectors.kafka.connector import KAFKA
from flamestream.connectors.kit.connector import ClientSettings, Connector, SinkSettings, SourceSettings
from flamestream.connectors.kit.own import OWN_SINK, OWN_SOURCE
from flamestream.connectors.postgres.connector import POSTGRES
from flamestream.connectors.redis.connector import REDIS
from flamestream.connectors.rolling.connector import ROLLING
from flamestream.connectors.socket.connector import SOCKET
from flamestream.connectors.synthetic.connector import CALLBACK, DISCARD, GENERATOR, MEMORY
from flamestream.model.errors import UserError

GROUP: Final = "flamestream.connectors"
BUILT_IN: Final = (
    FILES, GENERATOR, PARQUET, SOCKET, OWN_SOURCE, MEMORY, CALLBACK, DISCARD, KAFKA, POSTGRES, ROLLING,
    OWN_SINK, EVENTS, HTTP, REDIS,
)  # fmt: skip
"""In the order in which messages name them."""


@cache
def source_kinds() -> dict[str, type[SourceSettings]]:
    """The kinds of sources by name. Raises UserError for a package whose connector cannot be had."""
    return {each.kind: each.source for each in (*BUILT_IN, *_added()) if each.source is not None}


@cache
def sink_kinds() -> dict[str, type[SinkSettings]]:
    """The kinds of sinks by name. Raises UserError for a package whose connector cannot be had."""
    return {each.kind: each.sink for each in (*BUILT_IN, *_added()) if each.sink is not None}


@cache
def client_kinds() -> dict[str, type[ClientSettings]]:
    """The kinds of clients of calls by name. Raises UserError for a package whose connector cannot be had."""
    return {each.kind: each.client for each in (*BUILT_IN, *_added()) if each.client is not None}


def _added() -> Iterator[Connector]:
    taken = {each.kind for each in BUILT_IN}
    # Sorted, so that of two packages with one name the same is refused on every machine.
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        found = _loaded(point)
        if found.kind in taken:
            raise UserError(
                f"{_said(point)}: there is a connector {found.kind!r} already: uninstall one of the two"
            )
        taken.add(found.kind)
        yield found


def _loaded(point: EntryPoint) -> Connector:
    try:
        found = point.load()
    except Exception as error:  # another package's code may raise anything
        raise UserError(f"{_said(point)} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Connector):
        raise UserError(
            f"{_said(point)} is a {type(found).__name__}, not a "
            "flamestream.connectors.kit.connector.Connector"
        )
    return found


def _said(point: EntryPoint) -> str:
    package = "" if point.dist is None else f" of package {point.dist.name}"
    return f"the connector {point.value}{package}"
