"""Code whose payload classes have other fields goes on from the state of the code before, whatever becomes of
epochs and attempts in between."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Annotated, Any

import pytest
from msgspec.structs import replace

import flamestream as fs
from flamestream.core.dataflow import stored
from flamestream.core.dataflow.keyed_state import KeyedState
from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol import actions as act
from flamestream.core.protocol import stored_rows
from flamestream.core.protocol.inventory import inventory_of, misfit
from flamestream.model import payload as codec
from flamestream.model.errors import FlameStreamError, GraphError
from flamestream.model.graph import Graph
from flamestream.model.ids import SinkName
from flamestream.model.kernel import kernel
from flamestream.model.payloads.older import classes
from flamestream.model.payloads.registry import tag_of
from flamestream.model.payloads.shapes import PayloadClass
from flamestream.model.time import Time, front_of
from flamestream.reference import Walk
from support.core.core_cluster import CoreCluster
from support.core.core_outcome import Item
from support.payloads import defined

PARTS = [REFERENCE, *([] if kernel is None else [native(kernel)])]
Classes = Mapping[str, Any]


class Edition:
    """One version of the code: its classes and its graph."""

    def __init__(self, part: Classes, total: Classes, of_part: Callable[[Any], dict[str, Any]]) -> None:
        self.part, self.total = defined("Part", **part), defined("Total", **total)
        self.of_part = of_part
        self.graph = Graph("g")
        source = self.graph.source("s0")
        source.reduce(key=first, initial=self.none, combine=self.more, emit=self.shown).sink(
            "totals", key=first
        )
        parts = source.map(lambda text: (text[0], self.one(text, None)))
        parts.group(3, key=lambda pair: pair[0]).map(repr_of).sink("threes", key=first)
        self.graph.validated()

    def none(self) -> Any:
        return self.total("", parts=fs.Map())

    def one(self, text: str, before: Any) -> Any:
        count = 0 if before is None else getattr(before, "hits", getattr(before, "count", 0))
        fields = {"hits": count + 1} if "hits" in self.part.__slots__ else {"count": count + 1.5}
        return self.part(word=text, **fields)

    def more(self, total: Any, text: str) -> Any:
        part = self.one(text, total.parts.get(text[-1]))
        return dataclass_replace(total, user=text[0], parts=total.parts.set(text[-1], part))

    def shown(self, total: Any, text: str) -> str:
        return text[0] + repr_of(total)

    def converted(self, value: Any) -> Any:
        """A state of the edition before, by plain Python."""
        if isinstance(value, tuple):
            return tuple(map(self.converted, value))
        if type(value).__name__ == "Part":
            return self.part(word=value.word, **self.of_part(value))
        if type(value).__name__ == "Total":
            return self.total(
                value.user, parts=fs.Map({k: self.converted(p) for k, p in value.parts.items()})
            )
        return value


def dataclass_replace(value: Any, **changes: Any) -> Any:
    return type(value)(**{name: getattr(value, name) for name in value.__slots__} | changes)


def first(text: str) -> str:
    return text[0]


def repr_of(value: Any) -> str:
    return repr(value)


def one() -> Edition:
    return Edition(
        {"of": {"word": "str", "hits": "int"}},
        {"of": {"user": "str", "parts": "fs.Map[str, Part]"}},
        lambda part: {"hits": part.hits},
    )


def two() -> Edition:
    """A field renamed and widened, one more, and one more in the middle."""
    return Edition(
        {
            "of": {"count": Annotated[float, fs.was("hits")], "word": str, "note": "str | None"},
            "defaults": {"note": "new"},
        },
        {"of": {"user": "str", "parts": "fs.Map[str, Part]", "extra": "int"}, "defaults": {"extra": 7}},
        lambda part: {"count": float(part.hits)},
    )


def three() -> Edition:
    """Both that came have gone, and another came."""
    return Edition(
        {
            "of": {"word": str, "count": "Annotated[float, fs.was('hits')]", "b": bool},
            "defaults": {"b": True},
        },
        {"of": {"user": "str", "parts": "fs.Map[str, Part]"}},
        lambda part: {"count": float(getattr(part, "hits", getattr(part, "count", 0)))},
    )


def walked(walk: Walk, graph: Graph, cluster: CoreCluster, start: Time, end: Time) -> dict[str, list[Item]]:
    """What the reference makes of the runs in between."""
    found: dict[str, list[Item]] = {vertex.name: [] for vertex in graph.sinks}
    for time, records in cluster.runs():
        if start <= time < end:
            for name, meta, payload in walk.run(graph.sources[front_of(time)], time, records):
                found[name].append((meta, codec.encode(payload)))
    return found


def committed(cluster: CoreCluster) -> None:
    cluster.run()
    cluster.save()


def lived(cluster: CoreCluster, rng: Random) -> None:
    """Some input, epochs that are committed or come to nothing, and recoveries; at last all is below a cut."""
    for _ in range(rng.randint(1, 5)):
        cluster.feed(0, *(rng.choice("abcd") + rng.choice("xyz") for _ in range(rng.randint(1, 8))))
        cluster.run()
        for _ in range(rng.randint(0, 2)):
            cluster.announce()
            cluster.run()
            if rng.random() < 0.5:
                assert cluster.commit()
            else:
                cluster.abort()
            cluster.run()
        if rng.random() < 0.4:
            cluster.recover()
    committed(cluster)


def goes_through(
    seed: int, editions: Sequence[Callable[[], Edition]], parts: Parts = REFERENCE,
    between: Callable[[CoreCluster, int], None] = lambda cluster, number: None,
) -> None:  # fmt: skip
    """Each edition begins with the state of the one before; what all deliver is what the reference makes of it."""
    rng, edition = Random(seed), editions[0]()
    cluster = CoreCluster(edition.graph, 2, seed, parts=parts).recover()
    start, state, wanted = Time(0), dict[tuple[int, bytes], Any](), dict[str, list[Item]]()
    for number in range(len(editions)):
        if number:
            between(cluster, number)
            edition = editions[number]()
            cluster.change(edition.graph)
            state = {bucket: edition.converted(value) for bucket, value in state.items()}
        lived(cluster, rng)
        assert cluster.index is not None
        walk = Walk(edition.graph, state)
        for name, items in walked(walk, edition.graph, cluster, start, cluster.index.cut).items():
            wanted.setdefault(name, []).extend(items)
        start, state = cluster.index.cut, dict(walk.state)
    taken = {
        name: sorted(item for items in slots.values() for item in items)
        for name, slots in cluster.delivered().items()
    }
    assert taken == {SinkName(name): sorted(items) for name, items in wanted.items()}


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "reference" if parts is REFERENCE else "kernel")
@pytest.mark.parametrize("first_seed", range(0, 60, 20))
def test_state_is_read_as_the_classes_are_now(first_seed: int, parts: Parts) -> None:
    for seed in range(first_seed, first_seed + 20):
        goes_through(seed, [one, two, three], parts)


BROKEN = {
    "an older shape that is not looked for": lambda m: m.setattr(stored_rows, "marks", lambda shapes: ()),
    "a change behind a full row of an older shape": lambda m: m.setattr(KeyedState, "load", _as_stored_now),
    "a change that is applied to what it is now": lambda m: m.setattr(stored, "settled", lambda read: read()),
}
_load = KeyedState.load


def _as_stored_now(self: Any, chains: Any) -> None:
    _load(self, chains)
    for bucket in self.buckets.values():
        bucket.full, bucket.older = bucket.full or 1000, False


def _all_seeds() -> None:
    for seed in range(20):
        goes_through(seed, [one, two, three])


@pytest.mark.parametrize("what", BROKEN)
def test_without_one_of_its_rules_it_is_found_out(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken variants: what the test above is able to see."""
    BROKEN[what](monkeypatch)
    with pytest.raises((AssertionError, FlameStreamError)):
        _all_seeds()


def test_values_of_an_older_release_do_not_say_their_fields_and_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are taken for what the class was when the first newer release went on from them."""
    marked = vars(PayloadClass)["tag"]

    def before(cluster: CoreCluster, number: int) -> None:
        assert cluster.index is not None and cluster.index.inventory is not None
        if number == 1:
            monkeypatch.setattr(PayloadClass, "tag", marked)
            cluster.index = replace(cluster.index, inventory=replace(cluster.index.inventory, classes=None))

    for seed in range(10):
        monkeypatch.setattr(PayloadClass, "tag", property(lambda shape: tag_of(shape.name)))
        goes_through(seed, [one, one, two, three], between=before)


def _begun(
    key: Callable[[Any], Any], part: Classes, **named: Any
) -> tuple[CoreCluster, Callable[..., Graph]]:
    """A job whose keys, or states, are of a class."""
    made = {"part": defined("Part", **part)}

    def graph(**changes: Any) -> Graph:
        built = Graph("g")
        built.source("s0").reduce(
            key=lambda text: key(made["part"](text)), initial=lambda: made["part"](""),
            combine=lambda before, text: made["part"](text), emit=lambda state, text: text,
            **{"name": "parts", **named, **changes},
        ).sink("out")  # fmt: skip
        return built

    cluster = CoreCluster(graph(), 2, 1).recover()
    cluster.feed(0, "a", "b")
    committed(cluster)
    return cluster, graph


def test_a_key_of_a_class_that_has_changed_is_refused() -> None:
    """It would be found by nobody."""
    cluster, graph = _begun(lambda part: (1, part), {"of": {"word": str}})
    defined("Part", {"word": str, "more": int}, {"more": 0})
    with pytest.raises(AssertionError):
        cluster.change(graph())
    assert cluster.failures() and all(
        "a key of operation 'parts' is a support.payloads:Part with the fields (word: str)" in failed.message
        for failed in cluster.failures()
    )


@pytest.mark.parametrize(
    ("fields", "defaults", "told"),
    [
        ({"word": int}, {}, "has str in field 'word', which is int now"),
        ({"word": str, "more": int}, {}, "has no field 'more': give 'more' a default"),
        ({"word": str, "text": Annotated[str, fs.was("word")]}, {}, "one field 'word' for 'word' and 'text'"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_runs(
    fields: Mapping[str, Any], defaults: Mapping[str, Any], told: str
) -> None:
    cluster, graph = _begun(lambda part: 1, {"of": {"word": str}})
    defined("Part", fields, defaults)
    with pytest.raises(AssertionError):
        cluster.change(graph())
    messages = [failed.message for failed in cluster.failures()]
    assert messages
    for message in messages:
        assert "the state of operation 'parts' cannot be read" in message and told in message
        assert "support.payloads:Part is stored with the fields (word: str)" in message


def test_a_class_that_is_not_stored_may_become_anything() -> None:
    cluster, graph = _begun(lambda part: 1, {"of": {"word": str}})
    defined("Other", {"word": str})
    cluster.feed(0, "c")
    committed(cluster)
    defined("Other", {"word": int, "more": str})
    cluster.change(graph())
    cluster.feed(0, "d")
    committed(cluster)


def test_versions_go_one_way_and_every_step_is_there() -> None:
    cluster, graph = _begun(lambda part: 1, {"of": {"word": str}})
    step = {1: lambda part: part}

    def refusal(**named: Any) -> str:
        assert cluster.index is not None
        return misfit(cluster.index, graph(**named).identity, inventory_of(graph(**named)))

    assert refusal(version=2, migrate=step) == ""
    assert "'parts' has rows of version 1, and is of version 2 now: say migrate={1: up}" in refusal(version=2)
    assert "migrate={2: up}" in refusal(version=3, migrate=step)
    cluster.change(graph(version=2, migrate=step))
    cluster.feed(0, "c")
    committed(cluster)
    assert "is of version 2, and this code makes version 1: there is no way back" in refusal()
    assert "has rows of version 1" in refusal(version=2), "a key that nobody touched has an old row"


def test_an_operation_that_begins_with_a_version_needs_no_step() -> None:
    cluster, graph = _begun(lambda part: 1, {"of": {"word": str}}, version=4)
    assert cluster.index is not None and not misfit(cluster.index, graph().identity, inventory_of(graph()))
    [operation] = cluster.index.inventory.operations  # type: ignore[union-attr]
    assert operation.version_at(cluster.index.epoch) == 4
    assert classes()


def test_output_that_waits_for_its_commit_is_read_as_its_class_is_now() -> None:
    """It leaves as it was computed; who reads it has the fields of now."""

    def graph(part: Any) -> Graph:
        made = Graph("g")
        made.source("s0").map(part).sink("out", key=lambda each: each.word)
        return made

    cluster = CoreCluster(graph(defined("Part", {"word": str})), 2, 1, two_phase=True).recover()
    cluster.feed(0, "a", "b")
    cluster.run()
    cluster.announce()
    cluster.run()
    assert cluster.commit(say=False) and not any(cluster.delivered()[SinkName("out")].values())
    now = defined("Part", {"word": str, "more": int}, {"more": 5})
    cluster.change(graph(now))
    cluster.run()
    items = [
        codec.decode(payload) for its in cluster.delivered()[SinkName("out")].values() for _, payload in its
    ]
    assert sorted(items, key=repr) == [now("a", 5), now("b", 5)]


def test_input_that_was_journalled_is_read_as_its_class_is_now() -> None:
    """What lies above the cut is replayed by the new code."""
    first_one = defined("Part", {"word": str})

    def graph() -> Graph:
        made = Graph("g")
        made.source("s0").map(repr).sink("out", key=len)
        return made

    cluster = CoreCluster(graph(), 1, 1, replayable=False).recover()
    cluster.feed(0, first_one("a"))
    committed(cluster)
    cluster.feed(0, first_one("b"))
    cluster.held.add(act.Deliver)
    cluster.run()
    defined("Part", {"word": str, "more": int}, {"more": 5})
    cluster.held.clear()
    cluster.change(graph())
    cluster.run()
    assert sorted(
        codec.decode(payload) for its in cluster.delivered()[SinkName("out")].values() for _, payload in its
    ) == ["Part(word='a')", "Part(word='b', more=5)"]


def _first_of_all(version: int) -> Graph:
    """Per parity of a second, what has come so far; a state of version 2 says so, and how it came to be."""
    mark = "" if version == 1 else "two:"
    named: dict[str, Any] = (
        {} if version == 1 else {"version": 2, "migrate": {1: lambda state: f"two:{state}"}}
    )
    graph = Graph("g")
    seconds = graph.source("s0", int, at=lambda second: second, unit="s")

    def more(state: str | None, second: int, _now: Any = None) -> tuple[str, list[str]]:
        assert state is None or state.startswith(mark)
        after = f"{state or mark}{second},"
        return after, [after]

    seconds.process(
        key=lambda second: second % 2, on_item=more, due=lambda state: int(state[-3:-1]) + 9,
        on_time=lambda state, _: (f"{state}", [f"{state} late"]), name="processed", **named,
    ).sink("processed")  # fmt: skip
    seconds.reduce(
        key=lambda second: second % 2, initial=lambda: mark, combine=lambda state, second: more(state, second)[0],
        ttl="1h", name="forgetting", **named,
    ).sink("forgetting")  # fmt: skip
    seconds.map(lambda second: f"{mark}{second}").group(3, key=lambda text: 0, name="last", **named).sink(
        "last"
    )
    return graph


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "reference" if parts is REFERENCE else "kernel")
def test_a_step_is_given_the_users_state_wherever_that_lies(parts: Parts) -> None:
    """In a shard of a process, with what is kept for a `ttl`, and in each item of a grouping."""
    cluster = CoreCluster(_first_of_all(1), 2, 3, parts=parts).recover()
    cluster.feed(0, 10, 11, 12)
    committed(cluster)
    cluster.change(_first_of_all(2))
    cluster.feed(0, 13, 14, 15, 40)
    committed(cluster)
    found = {
        name: {codec.decode(payload) for its in slots.values() for _, payload in its}
        for name, slots in cluster.delivered().items()
    }
    assert {"10,", "10,12,", "11,", "two:11,13,", "two:10,12,14,", "two:11,13,15,"} <= found[
        SinkName("forgetting")
    ]
    assert {"two:11,13,", "two:10,12,14,"} <= found[SinkName("processed")]
    assert {("two:11", "two:12", "two:13"), ("two:12", "two:13", "two:14")} <= found[SinkName("last")]


@pytest.mark.parametrize(
    "named",
    [{"version": 0}, {"version": "2"}, {"version": True}, {"migrate": {1: str}}, {"version": 2, "migrate": {2: str}},
     {"version": 2, "migrate": {1: "up"}}, {"version": 2, "migrate": str}],
)  # fmt: skip
def test_a_version_is_a_number_with_a_step_for_each_before(named: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match=r"version=|migrate="):
        Graph("g").source("s").reduce(key=len, initial=int, combine=max, **named)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("top", {"count": 1, "by": len, "key": len}),
        ("distinct_count", {"value": len, "key": len}),
        ("join_table", {"other": None, "on": len}),
        ("dedup", {"key": len, "within": "1s"}),
        ("reduce", {"key": len, "initial": int, "combine": max, "fused": False}),
    ],
)
def test_states_that_are_not_the_users_have_no_version(method: str, arguments: dict[str, Any]) -> None:
    source = Graph("g").source("s")
    with pytest.raises(GraphError, match="has no version="):
        getattr(source, method)(**arguments, version=2)
