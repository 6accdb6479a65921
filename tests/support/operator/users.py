"""An API server that knows users by their tokens, and rights by who may what where: TokenReviews, SubjectAccessReviews,
logs of pods, and drills that are made."""

import asyncio
from typing import Any

from flamestream_operator.kube.api import ApiProblem

Object = dict[str, Any]


class Users:
    """`rights` has (user or group, verb, resource with its subresource, namespace or "*"). A token is its user's
    name."""

    def __init__(self, *rights: tuple[str, str, str, str]) -> None:
        self.rights = set(rights)
        self.names = {each[0] for each in rights} | {"nobody-s"}
        self.asked: list[Object] = []
        self.made: list[Object] = []
        self.logs: dict[str, list[str]] = {}
        """Lines by pod."""
        self.read: list[str] = []
        """Pods whose logs were read."""
        self.leader = ""
        """The address in the EndpointSlice."""
        self.problem: ApiProblem | None = None

    async def create(self, thing: Object, *, dry_run: bool = False) -> Object:
        if self.problem is not None:
            raise self.problem
        spec = thing["spec"]
        match thing["kind"]:
            case "TokenReview":
                self.asked.append(thing)
                known = spec["token"] in self.names
                user = {"username": spec["token"], "groups": ["system:authenticated"]}
                return {"status": {"authenticated": known, "user": user} if known else {}}
            case "SubjectAccessReview":
                self.asked.append(thing)
                return {"status": {"allowed": self._may(spec)}}
            case _:
                number = len(self.made)
                meta = thing["metadata"]
                name = f"{meta['generateName']}{number}"
                made = {
                    **thing,
                    "metadata": {**meta, "name": name, "uid": name, "resourceVersion": f"{number + 1}"},
                }
                self.made.append(made)
                return made

    def _may(self, spec: Object) -> bool:
        wanted = spec["resourceAttributes"]
        resource = "/".join(filter(None, (wanted["resource"], wanted.get("subresource"))))
        where = ("*", wanted["namespace"]) if wanted.get("namespace") else ("*",)
        if wanted["verb"] == "impersonate":
            where = (wanted["name"],)
        return any(
            (who, wanted["verb"], resource, place) in self.rights
            for who in (spec["user"], *spec.get("groups", ()))
            for place in where
        )

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        assert (kind, namespace, name) == ("EndpointSlice", "space", "coordinators")
        return {"endpoints": [{"addresses": [self.leader]}]} if self.leader else None

    async def log_lines(
        self, namespace: str, pod: str, container: str, *, tail: int | None, most: int
    ) -> list[str]:
        self.read.append(pod)
        await asyncio.sleep(0)
        if pod not in self.logs:
            raise ApiProblem(404, "NotFound", f"pod {pod} is not there")
        return self.logs[pod]


def looks(user: str, namespace: str) -> tuple[tuple[str, str, str, str], ...]:
    """The rights of somebody who may look at the jobs of a namespace."""
    return (
        (user, "get", "flamestreamjobs", namespace),
        (user, "list", "flamestreamjobs", namespace),
        (user, "list", "flamestreamsnapshots", namespace),
        (user, "list", "flamestreamdrills", namespace),
        (user, "get", "pods/log", namespace),
    )
