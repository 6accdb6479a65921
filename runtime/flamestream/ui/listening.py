"""A port of HTTP that strangers may reach: so many connections at most.

Keeps: who came last gets the place of the oldest of the address that has most, so silent connections hide nothing, and
a crowd takes nobody's stream away while there are others.
Does not: know what is answered.
"""

import asyncio
import os
import socket
from collections.abc import MutableSet
from typing import Any, Final

from aiohttp import web

from flamestream.net.admission import Admission, peer_of

MOST_CONNECTIONS: Final = 256
"""A page's port has so many."""
HEAD_SECONDS: Final = 15.0
AT_ONCE: Final = 16
"""Connections that enter in a turn of the loop: more would push each other out before they are answered."""
Streams = MutableSet[web.RequestHandler]
STREAMS: Final = web.AppKey[Streams]("streams")
"""The connections of an application that are worth more than others: somebody was let in there, and is told more."""


async def listen(
    app: web.Application,
    place: int | socket.socket,
    *,
    most: int,
    head_seconds: float,
    end_seconds: float = 1.0,
) -> web.AppRunner:
    """Serve `app` at a port, or a socket that is bound, until the runner that is given is cleaned up. `head_seconds`:
    for a request, and between two. `end_seconds`: for answers under way at the end."""
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=head_seconds, shutdown_timeout=end_seconds)
    listener: list[asyncio.Server] = []

    async def listen_no_more(_: web.Application) -> None:
        for each in listener:
            each.close()

    # The runner closes the sites that it made, and the listener is ours.
    app.on_shutdown.append(listen_no_more)
    await runner.setup()
    server = runner.server
    assert server is not None, "it was set up"
    streams = app.get(STREAMS, set())

    def entered() -> asyncio.BaseProtocol:
        _make_room(server, most, streams)
        return server()

    loop = asyncio.get_running_loop()
    at: dict[str, Any] = {"port": place} if isinstance(place, int) else {"sock": place}
    listener.append(await loop.create_server(entered, **at, backlog=AT_ONCE))
    for each in listener[0].sockets:
        with socket.socket(fileno=os.dup(each.fileno())) as door:
            door.listen(most)  # asyncio takes one number for the queue and for how many enter in a turn
    return runner


def _make_room(server: web.Server, most: int, streams: Streams) -> None:
    """Close connections until there is room for one more, and streams last."""
    inside = Admission[web.RequestHandler](most)
    for connection in server.connections:
        if connection.transport is not None:  # it may be on its way out
            inside.enter(connection, peer_of(connection.peername))
    # probes always get through (!)
    while inside.full and (other := inside.gives_way("", lambda each: each not in streams)) is not None:
        inside.leave(other)
        transport = other.transport
        other.force_close()
        if transport is not None:
            transport.abort()  # else one that does not read would stay until it has
