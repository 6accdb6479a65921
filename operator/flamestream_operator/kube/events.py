"""Events for `kubectl describe`: named by what they say, so that saying it twice is one Event.

Does not: fail anybody; an Event that is refused is a line in the log.
"""

import hashlib
import logging
from collections.abc import Callable

from flamestream.job.moments import written
from flamestream_operator.kube.api import Api, ApiProblem
from flamestream_operator.objects.meta import Object, whole

log = logging.getLogger(__name__)


class EventSender:
    """Writes them."""

    def __init__(self, api: Api, clock: Callable[[], float]) -> None:
        self._api, self._clock = api, clock

    async def send(self, thing: Object, kind: str, reason: str, message: str) -> None:
        """About `thing`. Its version is in the name: the same words about a later state are another Event."""
        meta = thing["metadata"]
        version = str(meta.get("resourceVersion", ""))
        digest = hashlib.sha256("\0".join((meta["uid"], version, reason, message)).encode()).hexdigest()[:16]
        now = written(self._clock())
        about = {
            "apiVersion": thing["apiVersion"],
            "kind": thing["kind"],
            **{key: meta[key] for key in ("name", "namespace", "uid")},
        }
        event = whole(
            "Event", {"name": f"{meta['name'][:200]}.{digest}", "namespace": meta["namespace"]},
            involvedObject=about, type=kind, reason=reason[:128], message=message[:1024], firstTimestamp=now,
            lastTimestamp=now, count=1, source={"component": "flamestream-operator"},
            reportingComponent="flamestream.dev/operator", reportingInstance="operator",
        )  # fmt: skip
        log.info(
            "event",
            extra={"object": f"{meta['namespace']}/{meta['name']}", "reason": reason, "said": message},
        )
        try:
            await self._api.create(event)
        except ApiProblem as problem:
            if not problem.exists:
                log.warning("an Event was refused", extra={"reason": reason, "problem": str(problem)})
