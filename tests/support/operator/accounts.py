"""An API server that knows whose tokens are whose, and who may read what: TokenReviews and
SubjectAccessReviews."""

import asyncio
from typing import Any

from flamestream_operator.kube.api import ApiProblem


class Accounts:
    """`prometheus` may GET /metrics, `somebody` may nothing, other tokens are nobody's."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.problem: ApiProblem | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def create(self, thing: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """As the API server answers."""
        self.asked.append(thing)
        await self.answers.wait()
        if self.problem is not None:
            raise self.problem
        spec = thing["spec"]
        if thing["kind"] == "TokenReview":
            known = spec["token"] in ("prometheus", "somebody")
            user = {"username": spec["token"], "groups": ["system:authenticated"], "extra": {"pod": ["p"]}}
            return {"status": {"authenticated": True, "user": user} if known else {}}
        assert spec["groups"] == ["system:authenticated"] and spec["extra"] == {"pod": ["p"]}, (
            "who asks is asked about whole"
        )
        wanted = {"path": "/metrics", "verb": "get"}
        return {
            "status": {"allowed": spec["user"] == "prometheus" and spec["nonResourceAttributes"] == wanted}
        }
