"""A port of the operator's process that strangers may reach: so many connections at most.

Keeps: who came last gets the place of the oldest of the address that has most, so silent connections hide nothing.
Does not: know what is answered.
"""

import asyncio

from aiohttp import web

from flamestream.net.admission import Admission, peer_of


async def listen(app: web.Application, port: int, *, most: int, head_seconds: float) -> web.AppRunner:
    """Serve `app` until the runner that is given is cleaned up. `head_seconds`: for a request, and between two."""
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=head_seconds, shutdown_timeout=1.0)
    listener: list[asyncio.Server] = []

    async def listen_no_more(_: web.Application) -> None:
        for each in listener:
            each.close()

    # The runner closes the sites that it made, and the listener is ours.
    app.on_shutdown.append(listen_no_more)
    await runner.setup()
    server = runner.server
    assert server is not None, "it was set up"

    def entered() -> asyncio.BaseProtocol:
        _make_room(server, most)
        return server()

    listener.append(await asyncio.get_running_loop().create_server(entered, None, port))
    return runner


def _make_room(server: web.Server, most: int) -> None:
    """Close connections until there is room for one more. No handler here is worth more than another."""
    inside = Admission[web.RequestHandler](most)
    for connection in server.connections:
        if connection.transport is not None:  # it may be on its way out
            inside.enter(connection, peer_of(connection.peername))
    # probes always get through (!)
    while inside.full and (other := inside.gives_way("", lambda _: True)) is not None:
        inside.leave(other)
        transport = other.transport
        other.force_close()
        if transport is not None:
            transport.abort()  # else one that does not read would stay until it has
