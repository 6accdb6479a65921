"""A server of the page on this machine, from its first look to a signal.

Does not: know what is served (server.py).
"""

import asyncio
import secrets
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from flamestream.model.errors import ManifestError
from flamestream.ui import listening
from flamestream.ui.gate import LOCAL, Gate
from flamestream.ui.local_jobs import LocalJobs
from flamestream.ui.server import STATIC, application

EVERYWHERE: Final = ("0.0.0.0", "::")  # told apart, not listened on


def serve(root: Path, listen: str, *, actions: bool, version: str, told: Callable[[str], None]) -> None:
    """Serve the jobs of `root` until SIGINT or SIGTERM. `told` gets the address, with its token. Raises ManifestError
    if nobody can listen there, or the page is not built."""
    if not (STATIC / "index.html").exists():
        raise ManifestError(
            "the page is not built here: run `make setup` (or scripts/page.py) where there is Node 20 with npm"
        )
    asyncio.run(_serve(root, listen, actions=actions, version=version, told=told))


async def _serve(
    root: Path, listen: str, *, actions: bool, version: str, told: Callable[[str], None]
) -> None:
    host, port = _address(listen)
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise ManifestError(
            f"--listen {listen}: {error.strerror or error}: choose another port, or 0"
        ) from error
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(24)
    gate = Gate(token, (*LOCAL, *_names(host)), f"flamestream-{port}")
    app = application(LocalJobs(root, actions=actions), gate, version=version)
    # Viewers never end by themselves: nobody waits for them.
    most, head_seconds = listening.MOST_CONNECTIONS, listening.HEAD_SECONDS
    runner = await listening.listen(app, listener, most=most, head_seconds=head_seconds, end_seconds=0.1)
    try:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        shown = LOCAL[0] if host in EVERYWHERE else host
        told(f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/#token={token}")
        await stop.wait()
    finally:
        await runner.cleanup()


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ManifestError(f"--listen is host:port, not {listen!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _names(host: str) -> tuple[str, ...]:
    """The names that others call this machine by, where they may."""
    return (socket.gethostname(), socket.getfqdn()) if host in EVERYWHERE else (host,)
