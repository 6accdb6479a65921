"""Sources: what a manifest may name, what the engine has to know of each, and its producer.

| kind      | front                                    | offset counts                     | read again from |
|-----------|------------------------------------------|-----------------------------------|-----|
| files     | timed; journalled with `follow: true`    | records; of each file if followed | the files |
| generator | timed                                    | numbers                           | the numbers |
| socket    | journalled, with its payloads            | records                           | the journal |
| postgres  | journalled                               | the table's key                   | the table |
| connector | as its class says                        | as its class says                 | as its class says |
| http      | journalled, with its payloads            | records                           | the journal |
| memory    | journalled                               | records of each partition         | this process (tests) |
| redis     | journalled                               | the stream's ids, with gaps       | the stream |
| kafka     | journalled; several share the partitions | the partition's, with gaps        | the topic |

>>> describe({"generator": {"count": 10}})  # doctest: +NORMALIZE_WHITESPACE
SourceTraits(timed=True, run_length=64, replayable=True, bounded=True, answers=False, fronts=1, skips=False,
start=0, in_sequence=False)
>>> describe({"files": {"path": "in", "folow": True}}, "spec.sources.docs")  # doctest: +NORMALIZE_WHITESPACE
Traceback (most recent call last):
flamestream.model.errors.ManifestError: spec.sources.docs.files: Object contains unknown field `folow` (its
fields: path, paths, ...)

Does not: read the manifest's file (job/manifest.py), or know what a kind does (its folder does).
"""

from collections.abc import Sequence
from typing import Final

from flamestream.connectors.installed import source_kinds
from flamestream.connectors.kit.connector import Kinds, SourceContext, SourceSettings, SourceTraits
from flamestream.connectors.synthetic.answers import ANSWERS, AnswersSpec
from flamestream.connectors.synthetic.clock import CLOCK, ClockSpec
from flamestream.core.protocol.settings import FrontSettings
from flamestream.model.records import Document
from flamestream.model.time import FrontId
from flamestream.ports import Post, Producer, Reactor

__all__ = [
    "Document",
    "SourceTraits",
    "build",
    "check_classes",
    "describe",
    "dialled",
    "kind_of",
    "named",
    "outlined",
    "placed",
    "settings_of",
    "share_of",
]  # fmt: skip


def _kinds() -> dict[str, type[SourceSettings]]:
    """Every kind; clocks and calls are of those that no manifest names, for graphs have them."""
    return {**source_kinds(), CLOCK.kind: ClockSpec, ANSWERS.kind: AnswersSpec}


_KINDS: Final = Kinds("source", _kinds)
settings_of, check_classes, kind_of, placed, dialled = (
    _KINDS.settings_of, _KINDS.check_classes, _KINDS.kind_of, _KINDS.placed, _KINDS.dialled,
)  # fmt: skip


def describe(spec: object, where: str = "source") -> SourceTraits:
    """Check `spec` and say what it is. Raises ManifestError that begins with the wrong field's place below
    `where`."""
    return settings_of(spec, where).traits(where)


def outlined(spec: object, where: str = "source") -> SourceTraits:
    """`describe` for who does not have the application: of a class of its own only that it is one front,
    perhaps journalled."""
    return settings_of(spec, where).outline(where)


def share_of(fronts: Sequence[FrontSettings], front: FrontId) -> int:
    """Which of its source's fronts the one of number `front` is, from 0."""
    name = named(fronts, front).source
    return sum(1 for other in fronts if other.source == name and other.front < front)


def named(fronts: Sequence[FrontSettings], front: FrontId) -> FrontSettings:
    """That of number `front`."""
    return next(each for each in fronts if each.front == front)


def build(
    spec: object,
    front: FrontId,
    post: Post,
    reactor: Reactor,
    *,
    name: str = "source",
    job: str = "",
    share: int = 0,
    traced: bool = False,
) -> Producer:
    """The producer of front `front`, the source's front number `share`. `name` is the source's in the
    manifest, for messages; `traced`: whether contexts that records come with are of use."""
    return settings_of(spec, f"spec.sources.{name}").producer(
        SourceContext(name, job, front, share, post, reactor, traced)
    )
