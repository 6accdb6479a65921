"""Who may read the operator's figures: whom the API server lets GET their path, by a bearer token (as
kube-rbac-proxy asks for it).

Does not: keep a token, or let anybody in while the API server does not answer (reviews.py).
"""

import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.reviews import LONGEST_TOKEN, Answers, NotNow, Reviews, may, user_of

OK, NO_LOGIN, NO_RIGHT, NOT_NOW = 200, 401, 403, 503
log = logging.getLogger(__name__)


class _Status(NamedTuple):
    code: int

    def __bool__(self) -> bool:
        return self.code == OK


class Readers:
    """Answers about tokens, kept for a while."""

    def __init__(self, api: Reviews, clock: Callable[[], float] = time.monotonic) -> None:
        self._api: Final = api
        self._answers = Answers[_Status](clock)

    async def status(self, authorization: str, path: str) -> int:
        """HTTP status for whoever shows this header: OK, or why not."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
            return NO_LOGIN
        try:
            return (await self._answers.of(f"{path} {token}", lambda: self._asked(token, path))).code
        except NotNow:
            return NOT_NOW
        except ApiProblem as problem:
            log.warning("nobody can be let in", extra={"path": path, "problem": str(problem)})
            return NOT_NOW

    async def _asked(self, token: str, path: str) -> _Status:
        user = await user_of(self._api, token)
        if user is None:
            return _Status(NO_LOGIN)
        allowed = await may(self._api, user, nonResourceAttributes={"path": path, "verb": "get"})
        return _Status(OK if allowed else NO_RIGHT)
