"""The door of the page of a cluster: who shows a token of the API server, and what RBAC lets them do.

    Authorization, or a cookie ──▶ whose token is it? ──▶ [Impersonate-User: may they speak for that one?]
        ──▶ each look at a job, and each action: may they, in its namespace?

A browser behind a port-forward brings its token once (`login`) and shows a cookie from then on; one behind a proxy that
logs people in brings none: the proxy shows the user's own token, or its own and Kubernetes' headers of impersonation.

Keeps: nobody sees or does through the page what kubectl would refuse them; rights are the caller's own, never the
operator's. Does not: keep a token (kube/reviews.py), or know what is asked for.
"""

import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from flamestream.ui.door import Cookie, What, from_here
from flamestream.ui.gate import LOCAL, bearer, host_in
from flamestream.ui.source import Refused
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.kube.reviews import LONGEST_TOKEN, Answers, NotNow, Reviews, may, user_of
from flamestream_operator.objects.meta import GROUP, NAMESPACED, Object

T = TypeVar("T")
MOST_RIGHTS: Final = 8192
MOST_NAMESPACES: Final = 256
"""Namespaces that a caller is asked about who may not see all of them."""
LONGEST_COOKIE: Final = 3800
"""Characters of a token: browsers refuse cookies from 4,096 on."""
NO_TOKEN: Final = (
    "show a token of this cluster, one of an account that may see jobs: "
    "`kubectl -n NAMESPACE create token ACCOUNT` prints one (docs/how-to/ui.md)"
)
JOBS: Final = "flamestreamjobs"
_RIGHTS: Final[Mapping[tuple[What, bool], tuple[str, str, str]]] = {
    ("job", False): ("get", JOBS, ""),
    ("graph", False): ("get", JOBS, ""),
    ("logs", False): ("get", "pods", "log"),
    ("snapshots", False): ("list", "flamestreamsnapshots", ""),
    ("audit", False): ("list", "flamestreamdrills", ""),
    ("audit", True): ("create", "flamestreamdrills", ""),
    # What `kubectl flamestream trace` takes: a pod that reads the sinks. Its answer has the job's data.
    ("item", False): ("create", "pods", ""),
    ("item", True): ("create", "pods", ""),
    ("drill", False): ("list", "flamestreamdrills", ""),
    ("drill", True): ("create", "flamestreamdrills", ""),
}
"""The right that each look and each action takes: verb, resource, subresource."""
_GROUPS: Final = {plural: group for group, _, plural in NAMESPACED.values()}

log = logging.getLogger(__name__)


class ClusterDoor:
    """`ui.door.Door` of one operator. `hosts`: names that the page is called by, beside addresses of IP, which no other
    site's name can be turned into."""

    def __init__(self, api: Reviews, cluster: Cluster, hosts: Collection[str]) -> None:
        self._api, self._cluster, self._hosts = api, cluster, {*LOCAL, *(host.lower() for host in hosts)}
        self._users = Answers[Object | None](at_once=16)
        self._rights = Answers[bool](most=MOST_RIGHTS, at_once=32)

    def is_ours(self, host: str) -> bool:
        """Whether a request is to a name of this server's."""
        name = host_in(host)
        return name in self._hosts or _is_address(name)

    async def enter(
        self, headers: Mapping[str, str], cookies: Mapping[str, str], *, changes: bool
    ) -> "ClusterCaller":
        """Who makes a request to the API."""
        if changes and not from_here(headers):
            raise Refused(403, "another site may start nothing here")
        user = await self._user(bearer(headers) or cookies.get(_cookie(headers), ""))
        return ClusterCaller(self, await self._meant(user, headers))

    async def login(self, headers: Mapping[str, str], token: str) -> Cookie:
        """A cookie for who has a token of the API server."""
        await self._user(token)
        if len(token) > LONGEST_COOKIE:
            raise Refused(400, f"a token of {len(token):,} characters is too long for a cookie: take a proxy")
        return Cookie(_cookie(headers), token)

    async def _user(self, token: str) -> Object:
        if not token or len(token) > LONGEST_TOKEN:
            raise Refused(401, NO_TOKEN)
        user = await self._answered(self._users.of(token, lambda: user_of(self._api, token)))
        if user is None:
            raise Refused(401, f"the API server does not know this token, or not any more: {NO_TOKEN}")
        return user

    async def _meant(self, user: Object, headers: Mapping[str, str]) -> Object:
        """Whom a proxy speaks for, by Kubernetes' own headers; without them the user itself."""
        values = getattr(headers, "getall", lambda name, default: default)  # a header may be there twice
        groups = [each for value in values("Impersonate-Group", []) for each in value.split(",") if each]
        more = [name for name in headers if name.lower().startswith(("impersonate-uid", "impersonate-extra"))]
        name = headers.get("Impersonate-User", "")
        ours = any(each.startswith("system:") for each in (name, *groups))
        if more or ours or (groups and not name):
            raise Refused(
                400, "of impersonation only a user and its groups are taken, none of Kubernetes' own"
            )
        if not name:
            return user
        for resource, each in (("users", name), *(("groups", group) for group in groups)):
            attributes = {"verb": "impersonate", "group": "", "resource": resource, "name": each}
            if not await self.allows(user, attributes):
                raise Refused(403, f"{user['user']} may not speak for {resource[:-1]} {each}")
        return {"user": name, "groups": [*groups, "system:authenticated"]}

    async def allows(self, user: Object, attributes: Mapping[str, str]) -> bool:
        """Whether a user may, as the API server says. Raises Refused (503) while it says nothing."""
        key = json.dumps([user, attributes], sort_keys=True)
        asked = self._rights.of(key, lambda: may(self._api, user, resourceAttributes=attributes))
        return await self._answered(asked)

    def namespaces(self) -> set[str]:
        """Those that have jobs."""
        return {str(job["metadata"].get("namespace", "")) for job in self._cluster.jobs}

    async def _answered(self, asked: Awaitable[T]) -> T:
        try:
            return await asked
        except NotNow:
            raise Refused(503, "too many others are asked about: try again") from None
        except ApiProblem as problem:
            log.warning("nobody can be let in to the page", extra={"problem": str(problem)})
            raise Refused(503, "the API server does not say who may: try again") from problem


@dataclass(frozen=True, slots=True)
class ClusterCaller:
    """`ui.door.Caller`: a user of the API server."""

    door: ClusterDoor
    user: Object

    @property
    def name(self) -> str:
        return str(self.user["user"])

    async def check(self, job: str, what: What, *, does: bool = False) -> None:
        """Return if RBAC lets them, in the job's namespace."""
        right = _RIGHTS.get((what, does))
        if right is None:
            raise Refused(404, f"there is no {what} on a cluster: `kubectl flamestream` has it")
        verb, resource, subresource = right
        namespace, _, name = job.partition(".")
        attributes = _attributes(verb, resource, namespace) | ({"name": name} if resource == JOBS else {})
        attributes |= {"subresource": subresource} if subresource else {}
        if not await self.door.allows(self.user, attributes):
            written = "/".join(filter(None, (resource, subresource)))
            raise Refused(403, f"{self.name} may not {verb} {written} in namespace {namespace!r}")

    async def listed(self) -> Callable[[str], bool]:
        """The jobs of namespaces whose jobs they may list."""
        if await self.door.allows(self.user, _attributes("list", JOBS, "")):
            return lambda job: True
        seen = set[str]()
        for namespace in sorted(self.door.namespaces())[:MOST_NAMESPACES]:
            if await self.door.allows(self.user, _attributes("list", JOBS, namespace)):
                seen.add(namespace)
        return lambda job: job.partition(".")[0] in seen


def _attributes(verb: str, resource: str, namespace: str) -> dict[str, str]:
    group = _GROUPS.get(resource, GROUP)
    return {"verb": verb, "group": group, "resource": resource} | (
        {"namespace": namespace} if namespace else {}
    )


def _cookie(headers: Mapping[str, str]) -> str:
    """A name that no other page of the same host has: browsers tell cookies apart by hosts alone."""
    return f"flamestream-{headers.get('Host', '').rpartition(':')[2] or '0'}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names of a Service within the cluster."""
    inside = f"{service}.{namespace}"
    return service, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"
