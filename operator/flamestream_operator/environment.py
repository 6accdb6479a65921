"""The environment variables of the operator's pod: docs/operations/kubernetes.md has the table.

Keeps: a missing variable is an error that names it. Does not: have defaults for where things are.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flamestream.machine.process_shell import read_secret
from flamestream.model.decoding import DecodeError, from_json
from flamestream.model.errors import ManifestError
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream.store.zookeeper_tls import trusting
from flamestream_operator.coordination.cluster_state import ZooKeeper
from flamestream_operator.kube.namespaces import LabelSelector
from flamestream_operator.objects.quantities import memory_of
from flamestream_operator.page.door import service_names
from flamestream_operator.page.serving import PageSettings
from flamestream_operator.shards import MOST, name_of
from flamestream_operator.site import Allowed, Site

PORT: Final = 7700
HTTP_PORT: Final = 8080
PAGE_PORT: Final = 7878
SHORTEST_PASSWORD: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The variables, read once."""

    pod: str
    namespace: str
    ip: str
    zookeeper: ZooKeeper
    service: str
    image: str
    pull_policy: str
    watch: tuple[str, ...]
    """Namespaces; empty: all."""
    selector: LabelSelector | None
    """The labels of those among all that are chosen; None: each is."""
    lease: str
    """The first shard's; the others are called after it (shards.py)."""
    lease_seconds: float
    shards: int
    """Leaders among whom the jobs are divided."""
    drills: bool
    allowed: Allowed
    """The chart's `allow`: what jobs may choose."""
    network_policies: bool
    port: int
    http_port: int
    page: PageSettings | None
    """The page of all jobs; None: nobody serves one."""

    def address_of(self, shard: int) -> str:
        """host:port that workers of this shard dial. Without a Service they find this pod alone."""
        if not self.service:
            return f"{self.ip}:{self.port}"
        return f"{name_of(self.service, shard)}.{self.namespace}.svc:{self.port}"

    def site_of(self, shard: int) -> Site:
        """The settings that all jobs of a shard are given."""
        # The first shard is there whatever their number becomes: who leads it says where a job's leader is by now.
        places = dict.fromkeys((self.address_of(shard), self.address_of(0)))
        return Site(
            coordinator=",".join(places), zookeeper=self.zookeeper.access, image=self.image,
            pull_policy=self.pull_policy, network_policies=self.network_policies, namespace=self.namespace,
            allowed=self.allowed,
        )  # fmt: skip


def read_environment(given: Mapping[str, str] | None = None) -> Environment:
    """Raises ManifestError that names what is missing."""
    env = os.environ if given is None else given

    def needed(name: str) -> str:
        value = env.get(name, "")
        if not value:
            raise ManifestError(
                f"the environment variable {name} is missing: the operator's pod sets it, see "
                "docs/operations/kubernetes.md"
            )
        return value

    return Environment(
        pod=needed("POD_NAME"),
        namespace=needed("POD_NAMESPACE"),
        ip=needed("POD_IP"),
        zookeeper=ZooKeeper(
            access=ZooKeeperAccess(
                needed("FLAMESTREAM_ZOOKEEPER"),
                _login(Path(needed("FLAMESTREAM_ZOOKEEPER_LOGIN"))),
                _authority(env.get("FLAMESTREAM_ZOOKEEPER_AUTHORITY", "")),
            ),
            journal_room=memory_of(env.get("FLAMESTREAM_ZOOKEEPER_JOURNAL", "0")),
            alone=env.get("FLAMESTREAM_ZOOKEEPER_ALONE", "false") == "true",
        ),
        service=env.get("FLAMESTREAM_SERVICE", ""),
        image=needed("FLAMESTREAM_IMAGE"),
        pull_policy=env.get("FLAMESTREAM_IMAGE_PULL_POLICY", "IfNotPresent"),
        watch=tuple(each.strip() for each in env.get("FLAMESTREAM_WATCH", "").split(",") if each.strip()),
        selector=_selector(env.get("FLAMESTREAM_NAMESPACE_SELECTOR", ""), env.get("FLAMESTREAM_WATCH", "")),
        lease=env.get("FLAMESTREAM_LEASE", "flamestream-operator"),
        lease_seconds=float(env.get("FLAMESTREAM_LEASE_SECONDS", "4")),
        shards=_shards(env.get("FLAMESTREAM_SHARDS", "1")),
        drills=env.get("FLAMESTREAM_DRILLS", "false") == "true",
        allowed=_allowed(env.get("FLAMESTREAM_ALLOW", "{}")),
        network_policies=env.get("FLAMESTREAM_NETWORK_POLICIES", "true") == "true",
        port=int(env.get("FLAMESTREAM_PORT", str(PORT))),
        http_port=int(env.get("FLAMESTREAM_HTTP_PORT", str(HTTP_PORT))),
        page=_page(env) if env.get("FLAMESTREAM_UI", "false") == "true" else None,
    )


def _shards(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise ManifestError(
            f"the environment variable FLAMESTREAM_SHARDS: a number from 1 to {MOST} is needed, not {text!r}: "
            "correct `operator.shards` in the chart's values"
        )
    return int(text)


def _selector(text: str, watch: str) -> LabelSelector | None:
    if not text:
        return None
    if watch:
        raise ManifestError(
            "the environment variables FLAMESTREAM_WATCH and FLAMESTREAM_NAMESPACE_SELECTOR exclude each other: choose "
            "namespaces by name or by label in the chart's values"
        )
    try:
        return from_json(text, LabelSelector)
    except DecodeError as error:
        raise ManifestError(
            f"the environment variable FLAMESTREAM_NAMESPACE_SELECTOR: {error}: correct "
            "`operator.namespaceSelector` in the chart's values"
        ) from error


def _page(env: Mapping[str, str]) -> PageSettings:
    service, namespace = env.get("FLAMESTREAM_UI_SERVICE", ""), env["POD_NAMESPACE"]
    given = [each.strip() for each in env.get("FLAMESTREAM_UI_HOSTS", "").split(",") if each.strip()]
    return PageSettings(
        port=int(env.get("FLAMESTREAM_UI_PORT", str(PAGE_PORT))),
        hosts=(*given, *(service_names(service, namespace) if service else ())),
        actions=env.get("FLAMESTREAM_UI_ACTIONS", "false") == "true",
        drills=env.get("FLAMESTREAM_DRILLS", "false") == "true",
        namespace=namespace,
    )  # fmt: skip


def _allowed(text: str) -> Allowed:
    try:
        return from_json(text, Allowed)
    except DecodeError as error:
        raise ManifestError(
            f"the environment variable FLAMESTREAM_ALLOW: {error}: correct `allow` in the chart's values"
        ) from error


def _authority(file: str) -> str:
    """The authority (PEM) of ZooKeeper's certificates; "": it is reached without TLS."""
    if not file:
        return ""
    try:
        authority = read_secret(Path(file), "the authority of ZooKeeper's certificates")
        trusting(authority)
    except (ssl.SSLError, ValueError, TypeError) as error:  # none, empty, not text
        raise ManifestError(
            f"{file}: the authority of ZooKeeper's certificates must be certificates in PEM ({error})"
        ) from error
    return authority


def _login(file: Path) -> str:
    login = read_secret(file, "the operator's login for ZooKeeper")
    user, _, password = login.partition(":")
    # an '@' would end the login in an address
    if not user or len(password) < SHORTEST_PASSWORD or "@" in login:
        raise ManifestError(
            f"{file}: the login for ZooKeeper must be USER:PASSWORD without '@', the password of "
            f"{SHORTEST_PASSWORD} characters at least: who guesses it has every job's record"
        )
    return login
