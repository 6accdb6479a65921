"""Clients: what a manifest may name for functions of calls to ask with, by the kinds that there are.

| kind     | gives                           | a connection is given back            |
|----------|---------------------------------|---------------------------------------|
| postgres | a pool of psycopg's connections | behind `async with pool.connection()` |
| redis    | a client of redis-py            | behind each command                   |

>>> settings_of({"redis": {"url": "redis://cache:6379/0"}}, "spec.clients.cache").described()
'Redis cache:6379/0'
>>> settings_of({"redis": {"ulr": "redis://cache"}}, "spec.clients.cache")  # doctest: +ELLIPSIS
Traceback (most recent call last):
flamestream.model.errors.ManifestError: spec.clients.cache.redis: Object contains unknown field `ulr` ...

Does not: read the manifest's file (job/manifest.py), open one (node/calls/clients.py), or know what a kind
does (its folder does).
"""

from typing import Final

from flamestream.connectors.installed import client_kinds
from flamestream.connectors.kit.connector import ClientSettings, Kinds

__all__ = ["ClientSettings", "placed", "settings_of"]

_KINDS: Final = Kinds("client", client_kinds)
settings_of, placed = _KINDS.settings_of, _KINDS.placed
