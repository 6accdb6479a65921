"""Who may read the operator's figures: whom the API server lets GET their path, by a bearer token (as
kube-rbac-proxy asks for it).

    Authorization: Bearer TOKEN ──▶ TokenReview (whose is it?)
                                ──▶ SubjectAccessReview (may it GET /metrics?) ──▶ kept for a while

Keeps: a token is asked about once in KEPT_FOR; MOST_KEPT answers at most, by the tokens' digests; AT_ONCE
questions under way at most, so a flood of made-up tokens costs the API server little and shuts nobody out who
was answered before. Does not: keep a token, or let anybody in while the API server does not answer.
"""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.objects.meta import Object, whole

KEPT_FOR: Final = 30.0
"""Seconds; a right that is taken away holds for so long."""
MOST_KEPT: Final = 256
AT_ONCE: Final = 4
LONGEST_TOKEN: Final = 8192
OK, NO_LOGIN, NO_RIGHT, NOT_NOW = 200, 401, 403, 503

log = logging.getLogger(__name__)


class Reviews(Protocol):
    """The part of the API server that is asked."""

    async def create(self, thing: Object, *, dry_run: bool = False) -> Object: ...


class _Answer(NamedTuple):
    status: int
    until: float


class Readers:
    """Answers about tokens, kept for a while."""

    def __init__(self, api: Reviews, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._asking = 0

    async def status(self, authorization: str, path: str) -> int:
        """HTTP status for whoever shows this header: OK, or why not."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
            return NO_LOGIN
        key = hashlib.sha256(f"{path} {token}".encode()).digest()  # never the token itself (!)
        known = self._answers.get(key)
        if known is not None and self._clock() < known.until:
            return known.status
        # a flood shuts out only who was never let in
        if self._asking >= AT_ONCE and (known is None or known.status != OK):
            return NOT_NOW
        self._asking += 1
        try:
            status = await self._asked(token, path)
        except ApiProblem as problem:
            log.warning("nobody can be let in", extra={"path": path, "problem": str(problem)})
            return NOT_NOW
        finally:
            self._asking -= 1
        self._keep(key, status)
        return status

    async def _asked(self, token: str, path: str) -> int:
        review = await self._api.create(whole("TokenReview", {}, spec={"token": token}))
        said = review.get("status") or {}
        if not said.get("authenticated"):
            return NO_LOGIN
        user = said.get("user") or {}
        who = {name: user[name] for name in ("groups", "uid", "extra") if user.get(name)} | {
            "user": user.get("username", "")
        }
        wants = {"nonResourceAttributes": {"path": path, "verb": "get"}}
        access = await self._api.create(whole("SubjectAccessReview", {}, spec=who | wants))
        return OK if (access.get("status") or {}).get("allowed") else NO_RIGHT

    def _keep(self, key: bytes, status: int) -> None:
        """The oldest gives way, but none that lets somebody in for one that does not."""
        self._answers.pop(key, None)
        if len(self._answers) >= MOST_KEPT:
            refused = next((each for each, answer in self._answers.items() if answer.status != OK), None)
            if refused is None and status != OK:
                return
            del self._answers[next(iter(self._answers)) if refused is None else refused]
        self._answers[key] = _Answer(status, self._clock() + KEPT_FOR)
