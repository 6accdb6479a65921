"""The page's port of one replica of the operator: the page itself, and its API, or the way to who leads.

Keeps: a port of its own with MOST_CONNECTIONS, so that a crowd there hides no probe. Does not: know what is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from flamestream import __version__
from flamestream.ui.listening import HEAD_SECONDS, MOST_CONNECTIONS, listen
from flamestream.ui.server import LOGIN, Handler, application
from flamestream_operator.coordination.hosting import Hosting
from flamestream_operator.jobs.reading_pods import ReadingPods
from flamestream_operator.kube.api import LightkubeApi
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.page.cluster_jobs import ClusterJobs
from flamestream_operator.page.door import ClusterDoor
from flamestream_operator.page.history import History
from flamestream_operator.page.relay import Relay

MOST_OF_ONE: Final = 16
"""Viewers of one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """The chart's `ui`, and where this page stands."""

    port: int
    hosts: tuple[str, ...]
    """Names that it is called by."""
    actions: bool
    """Whether drills may be started from it."""
    drills: bool
    """Whether this operator carries them out."""
    namespace: str


async def serve_page(
    settings: PageSettings,
    api: LightkubeApi,
    cluster: Cluster,
    hosting: Callable[[], Hosting | None],
    readers: Callable[[], ReadingPods | None],
    history: History,
    elsewhere: Callable[[str], str | None],
) -> web.AppRunner:
    """Serve until the runner is cleaned up. `hosting` gives the coordinators of this process, `readers` what makes
    pods beside jobs; None: it does not lead. `elsewhere`: the Service whose leader answers for a job ("": for all of
    them); None: this process does."""
    jobs = ClusterJobs(
        cluster, hosting, readers, api, history, drills=settings.drills, actions=settings.actions
    )
    app = application(
        jobs, ClusterDoor(api, cluster, settings.hosts), version=__version__, most_of_one=MOST_OF_ONE
    )
    relay = Relay(api, settings.namespace, settings.port)
    app.middlewares.append(_relayed(relay, elsewhere))
    app.on_cleanup.append(lambda _: relay.close())
    return await listen(app, settings.port, most=MOST_CONNECTIONS, head_seconds=HEAD_SECONDS)


def _relayed(relay: Relay, elsewhere: Callable[[str], str | None]) -> Any:
    """A middleware: what only a job's leader can answer goes to it, once the door has let it in here."""

    @web.middleware
    async def relayed(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith("/api/") or request.path == LOGIN:
            return await handler(request)
        service = elsewhere(request.match_info.get("job") or request.query.get("job", ""))
        return await (handler(request) if service is None else relay.answer(request, service))

    return relayed
