"""Names of a job's objects that both the operator and `kubectl flamestream` know, and what a pod beside a job has of
them: copies of the applications that the job has had.

    /opt/flamestream/earlier/NAME/    the files of one; NAME is its ConfigMap's

An audit judges each result by the code that made it, so its pod has the newest copies at hand.

Does not: name what the operator alone looks for (flamestream_operator/objects/names.py), or say which code is in a
copy (node/kept_code.py).
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

LONGEST: Final = 63
"""A label's value, a host's name."""
EARLIER: Final = "/opt/flamestream/earlier"
MOST_COPIES: Final = 16
"""Copies that a pod has: the newest."""
_COPY: Final = re.compile(r".*-app-[0-9a-f]{12}")

Object = dict[str, Any]


def fitted(name: str, suffix: str, longest: int = LONGEST) -> str:
    """`name` and `suffix`; a name that is too long is cut and told apart by a hash."""
    if len(name) + len(suffix) <= longest:
        return name + suffix
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: longest - len(suffix) - 9].rstrip('-')}-{digest}{suffix}"


def zookeeper(job: str) -> str:
    """The Secret with how the job reaches ZooKeeper."""
    return fitted(job, "-zookeeper")


def queries(job: str) -> str:
    """The Service of the workers that answer, and the Secret with the token that clients prove themselves with."""
    return fitted(job, "-queries")


def application_copy(job: str, digest: str) -> str:
    """The ConfigMap with the application's files as they were. `digest`: a fingerprint of theirs."""
    return fitted(job, f"-app-{digest[:12]}")


def copies_among(config_maps: Iterable[Object]) -> list[str]:
    """Names of the copies among the ConfigMaps of a job, the newest first."""
    there = [each["metadata"] for each in config_maps if _COPY.fullmatch(each["metadata"]["name"])]
    there.sort(key=lambda meta: (str(meta.get("creationTimestamp") or ""), meta["name"]), reverse=True)
    return [meta["name"] for meta in there[:MOST_COPIES]]


def with_copies(pod: Object, copies: Sequence[str]) -> Object:
    """A pod of one container, with these copies at hand."""
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    volumes = [
        {"name": f"earlier-{number}", "configMap": {"name": name}} for number, name in enumerate(copies)
    ]
    mounts = [
        {"name": volume["name"], "mountPath": f"{EARLIER}/{name}", "readOnly": True}
        for volume, name in zip(volumes, copies, strict=True)
    ]
    container = {**container, "volumeMounts": [*container["volumeMounts"], *mounts]}
    return {**pod, "spec": {**spec, "containers": [container], "volumes": [*spec["volumes"], *volumes]}}
