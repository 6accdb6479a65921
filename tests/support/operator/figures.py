"""Figures of a job that were looked at, by name, and the names that there are.

Does not: compare anything with a recorded output of ours.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, get_args

import msgspec
from prometheus_client import REGISTRY

from support.operator.plain_cluster import PlainCluster

SECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


class Looked:
    """What was looked at so far, by name; nothing is compared with a recorded output of ours."""

    def __init__(self) -> None:
        self.metrics: set[str] = set()
        self.fields: set[str] = set()
        self._before: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}

    def metric(self, cluster: PlainCluster, name: str, expected: Any, **labels: str) -> None:
        """`name` without `flamestream_job_`; `expected` is a value or says of one whether it is right.
        `_count` of a histogram is one."""
        cluster.jobs.observe()
        self.metrics.add(re.sub(r"_(total|count|sum)$", "", name))
        labels = {"job": f"{cluster.namespace}.{cluster.name}", **labels}
        _right(
            f"metric {name} {labels}", REGISTRY.get_sample_value(f"flamestream_job_{name}", labels), expected
        )

    def field(self, cluster: PlainCluster, path: str, expected: Any) -> None:
        """Dots go into structs, and into the first of a list."""
        self.fields.add(path)
        value: Any = cluster.status
        for name in path.split("."):
            value = value[0] if isinstance(value, list) else value
            value = getattr(value, name)
        _right(f"status.{path}", value, expected)

    def grown(self) -> None:
        """No counter ever goes back."""
        for family in REGISTRY.collect():
            if family.name.startswith("flamestream_job_") and family.type != "gauge":
                for sample in family.samples:
                    key = (sample.name, tuple(sorted(sample.labels.items())))
                    assert sample.value >= self._before.get(key, 0.0), (
                        f"{key} went back from {self._before[key]} to {sample.value}"
                    )
                    self._before[key] = sample.value


def _right(what: str, value: Any, expected: Any) -> None:
    good = expected(value) if callable(expected) else value == expected
    assert good, f"{what} is {value!r}, expected {expected if not callable(expected) else 'something else'}"


def between(least: float, most: float) -> Callable[[Any], bool]:
    """Says of a value whether it is there, and from `least` to `most`."""
    return lambda value: value is not None and least <= value <= most


def is_time(value: Any) -> bool:
    """Says of a value whether it is a moment as Kubernetes writes one."""
    return bool(re.fullmatch(SECONDS, str(value)))


def paths(kind: Any, before: str = "") -> Iterator[str]:
    """Of all fields that hold no struct."""
    for each in msgspec.structs.fields(kind):
        inside = [
            found
            for found in _types(each.type)
            if isinstance(found, type) and issubclass(found, msgspec.Struct)
        ]
        path = f"{before}{each.name}"
        yield from paths(inside[0], f"{path}.") if inside else [path]


def _types(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)
