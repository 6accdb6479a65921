"""The site that jobs run in: what one operator tells them all, and what it allows them.

>>> allowed = Allowed(images=("registry.example/team/",))
>>> allowed.has_image("registry.example/team/app:1"), allowed.has_image("registry.example/teams/app:1")
(True, False)

Does not: judge a spec (jobs/admission.py).
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from flamestream.store.places import parsed_s3
from flamestream.store.zookeeper_access import ZooKeeperAccess

AWS: Final = "aws"
"""Among the endpoints: S3 itself, of a store that names no endpoint."""
_Names = Annotated[tuple[str, ...], Meta(max_length=256)]


class Allowed(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The chart's value `allow`: all that jobs may have beyond the least. docs/operations/kubernetes.md lists
    its fields."""

    images: _Names = ()
    """Beside the operator's own: an image, or the place of images if it ends with `/`."""
    service_accounts: _Names = ()
    """Service accounts for drivers, beside the one that is made for the job."""
    priority_classes: _Names = ()
    host_paths: _Names = ()
    """Folders of nodes, with all below them."""
    volumes: _Names = ()
    """Kinds of volumes beside those of the restricted Pod Security Standard; hostPath needs host_paths
    instead."""
    store_endpoints: _Names = (AWS,)
    """Endpoints that the operator itself talks to with a job's keys."""
    drill_namespaces: _Names = ()
    """Namespaces in which drills of jobs elsewhere may strike."""
    egress: Literal["named", "any"] = "named"
    """Where a job's `spec.egress` is left out: whether functions of its calls may connect to nothing, or to
    anything."""

    def has_image(self, image: str) -> bool:
        return any(image.startswith(each) if each.endswith("/") else image == each for each in self.images)

    def has_host_path(self, path: str) -> bool:
        # A pure path does not resolve `..`: /data/../etc would count as below /data.
        folder = PurePosixPath(path)
        return ".." not in folder.parts and any(folder.is_relative_to(each) for each in self.host_paths)

    def refused_store(self, url: str, setting: str) -> str:
        """Why the operator does not talk to this store; "": it does. Raises UserError if it is none."""
        endpoint = parsed_s3(url, setting)[2].get("endpoint", AWS)
        if endpoint in self.store_endpoints:
            return ""
        where = "AWS's S3" if endpoint == AWS else f"the endpoint {endpoint}"
        return f"{setting}: the operator does not talk to {where}: {ask('storeEndpoints', endpoint)}"


STRICT: Final = Allowed()
"""The chart's allowances where nothing is said."""


@dataclass(frozen=True, slots=True)
class Site:
    """The settings that one operator gives to all its jobs."""

    coordinator: str
    """host:port[,host:port] that workers dial."""
    zookeeper: ZooKeeperAccess
    """As the operator reaches it."""
    image: str
    pull_policy: str = "IfNotPresent"
    namespace: str = ""
    """The operator's own: no job runs there."""
    allowed: Allowed = STRICT
    network_policies: bool = True
    """Whether each job gets one."""


def ask(value: str, what: str) -> str:
    """Whom to ask for a value of the chart's `allow`."""
    return f"ask who runs the operator for {what!r} in the chart's allow.{value}"
