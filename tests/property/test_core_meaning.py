"""Whatever the schedule, the number of workers and the recoveries: the engine computes what the reference
interpreter computes."""

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from flamestream.core.dataflow.native import FASTEST
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.ids import SinkName
from flamestream.model.slot import INT32_MIN
from flamestream.model.stream import Stream
from flamestream.simulation import graphs
from flamestream.simulation.jobs import ready
from support.core.core_cluster import DEAD, CoreCluster

SEEDS = st.integers(0, 1 << 32)
LETTERS = "abcde"
Stage = Callable[[Stream[Any]], Stream[Any]]


def _job(*stages: Stage, sources: int = 2) -> Graph:
    graph = Graph("job")
    first, *others = [graph.source(f"s{i}") for i in range(sources)]
    stream = first.merge(*others) if others else first
    for stage in stages:
        stream = stage(stream)
    stream.sink("out", key=lambda p: p[0])
    return graph


def _scatter(stream: Stream[Any]) -> Stream[Any]:
    return stream.balance(graphs.spread).map(graphs.same)


def _index(fused: bool) -> Stage:
    return lambda stream: stream.reduce(
        key=lambda p: p[0],
        initial=str,
        combine=lambda a, p: a + p[1][-2:],
        emit=lambda a, p: (p[0], p[1], a),
        fused=fused,
    )


def _rekey(stream: Stream[Any]) -> Stream[Any]:
    return stream.map(lambda p: (LETTERS[crc32(repr(p).encode()) % 3], graphs.digest(repr(p))))


def _play(
    graph: Graph, seed: int, *, records: int = 24, recoveries: int = 0, epochs: bool = True, **changes: Any
) -> CoreCluster:
    """Feed, cut and recover at random moments, and come to rest."""
    rng = Random(seed)
    cluster = CoreCluster(
        graph, rng.randint(1, 4), seed, slice_size=rng.choice([1, 3, 100]), **changes
    ).recover()
    moments = rng.sample(range(records), recoveries)
    for number in range(records):
        cluster.feed(rng.randrange(len(cluster.sources)), (rng.choice(LETTERS), f"{number:02}"))
        cluster.run(rng.randrange(12))
        if epochs and number % 5 == 0:
            if not cluster.commit():
                cluster.abort()
            cluster.announce()
        if number in moments:
            _disturb(cluster, rng)
    cluster.end()
    cluster.run()
    return cluster


def _disturb(cluster: CoreCluster, rng: Random) -> None:
    if rng.random() < 0.7:
        cluster.crash(rng.choice(list(cluster.workers)))
    if rng.random() < 0.5 or not cluster.workers:
        cluster.add()
    cluster.begin()
    if rng.random() < 0.3:  # interrupted: begin again
        cluster.begin()
    cluster.seal()
    cluster.replay()


@given(SEEDS)
def test_a_fused_and_an_unfused_reduce_give_the_results_of_the_reference(seed: int) -> None:
    fused, unfused = (_play(_job(_scatter, _index(form)), seed) for form in (True, False))
    fused.check()
    unfused.check()
    # the same runs: then the same payloads, in the same order, in every slot
    unfused.journals = fused.journals
    both = [
        {
            slot: [payload for _, payload in items]
            for slot, items in cluster.expected()[SinkName("out")].items()
        }
        for cluster in (fused, unfused)
    ]
    assert both[0] == both[1]


@given(SEEDS, st.integers(1, 5))
def test_windows_are_those_of_the_global_order(seed: int, window: int) -> None:
    stage: Stage = lambda stream: stream.group(window, key=lambda p: p[0]).map(lambda w: (w[-1][0], w))  # noqa: E731
    _play(_job(_scatter, stage), seed, recoveries=1).check()


@given(SEEDS)
def test_items_and_tombstones_cross_workers_twice(seed: int) -> None:
    cluster = _play(_job(_scatter, _index(True), _rekey, _index(True)), seed, recoveries=seed % 3)
    cluster.check()


def test_those_schedules_do_send_tombstones_between_workers() -> None:
    """Otherwise the tests above would show nothing."""
    cluster = CoreCluster(_job(_scatter, _index(True), _rekey, _index(True)), 3, 7).recover()
    tombstones: list[bool] = []

    def noted(frame: Any) -> list[Any]:
        tombstones.extend(t for m in frame.messages for t in getattr(m, "tombstones", []))
        return [frame]

    cluster.spoil = noted
    for number in range(40):
        cluster.feed(number % 2, (LETTERS[number % 5], str(number)))
        cluster.run(6)
    cluster.end()
    cluster.run()
    cluster.check()
    assert any(tombstones)


@given(SEEDS)
def test_what_goes_round_a_loop_keeps_its_place(seed: int) -> None:
    _play(_job(lambda s: graphs.rounds(Random(seed), s), _scatter, _index(True)), seed, recoveries=1).check()


@given(SEEDS)
def test_a_loop_that_does_not_end_becomes_error_items(seed: int) -> None:
    def endless(stream: Stream[Any]) -> Stream[Any]:
        head = stream.graph.loop("endless", max_iterations=2)
        turned = stream.merge(head).filter(lambda p: True)
        head.close(turned.balance(graphs.spread).map(graphs.same))
        return turned.map(graphs.same)

    cluster = _play(_job(endless), seed, records=5, dead_letter=DEAD)
    cluster.check()
    assert cluster.delivered()[DEAD]


@given(SEEDS)
def test_two_ways_that_meet_again_do_not_tie(seed: int) -> None:
    _play(
        _job(_scatter, lambda s: graphs.diamond(Random(0), s), _index(seed % 2 == 0)), seed, recoveries=1
    ).check()


@given(SEEDS)
def test_a_flat_map_keeps_its_results_in_order(seed: int) -> None:
    _play(
        _job(
            lambda s: s.flat_map(lambda p: [(p[0], p[1] + str(i)) for i in range(int(p[1]) % 4)]),
            _scatter,
            _index(True),
        ),
        seed,
    ).check()


@given(SEEDS, st.integers(1, 4))
def test_timed_fronts_give_one_result_for_every_schedule(seed: int, run_length: int) -> None:
    cluster = _play(_job(_scatter, _index(True)), seed, recoveries=1, timed=[0, 1], run_length=run_length)
    cluster.check()
    assert cluster.complete


@given(SEEDS)
@examples(max_examples=60)
def test_recoveries_change_nothing(seed: int) -> None:
    cluster = _play(
        graphs.drawn_job(Random(seed)).graph, seed, recoveries=3, dead_letter=DEAD, debug=seed % 4 == 0
    )
    cluster.check()
    assert cluster.complete


@given(SEEDS)
@examples(max_examples=60)
def test_ready_made_and_vectorised_functions_give_the_results_of_the_reference(seed: int) -> None:
    for parts in (REFERENCE, FASTEST):
        job = ready.ready_job(Random(seed))
        cluster = _play(job.graph, seed, recoveries=2, dead_letter=DEAD, debug=seed % 4 == 0, parts=parts)
        cluster.check()
        assert cluster.complete


# --- user functions that fail -------------------------------------------------------------------------------


def _faulty(role: str, seed: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, but for some inputs it raises, or gives what is no payload."""

    def called(*arguments: Any) -> Any:
        chance = crc32(repr((role, seed, arguments)).encode()) % 12
        if chance == 0:
            raise ValueError(f"{role} of {arguments!r}")
        if chance == 1 and role != "filter":
            return [1]
        return function(*arguments)

    called.__qualname__ = role
    return called


def _halfway(payload: Any) -> Any:
    yield payload
    if int(payload[1][:2]) % 4 == 1:
        raise KeyError(payload[1])
    yield payload[0], [] if int(payload[1][:2]) % 4 == 2 else payload[1] + "x"
    if int(payload[1][:2]) % 4 == 2:
        raise ZeroDivisionError("never reached: what it gave before is no payload")


def _faulty_job(seed: int) -> Graph:
    rng = Random(seed)

    def reduced(stream: Stream[Any]) -> Stream[Any]:
        beginnings: list[Callable[[], Any]] = [
            str,
            str,
            lambda: ["no payload"],
            _faulty("initial", seed + 1, str),
        ]
        return (
            stream.balance(_faulty("balance", seed, lambda key: crc32(repr(key).encode()) + INT32_MIN))
            .reduce(
                key=_faulty("key", seed, lambda p: p[0]),
                initial=rng.choice(beginnings),
                combine=_faulty("combine", seed, lambda a, p: "".join(a)[-6:] + p[1]),
                emit=rng.choice([None, _faulty("emit", seed, lambda a, p: (p[0], a))]),
            )
            .map(lambda r: (r[:1], r) if isinstance(r, str) else r)
        )

    def grouped(stream: Stream[Any]) -> Stream[Any]:
        return stream.group(2, key=_faulty("group", seed, lambda p: p[0])).map(
            lambda w: (w[0][0], w[-1][1] + w[0][1][-2:])
        )

    stages = [
        lambda s: s.map(_faulty("map", seed, graphs.same)),
        lambda s: s.flat_map(_halfway),
        lambda s: s.balance(_faulty("place", seed, graphs.spread)).filter(
            _faulty("filter", seed, lambda p: p[1] != "x")
        ),
    ]
    rng.shuffle(stages)
    graph = Graph("faulty")
    stream = graph.source("s0").merge(graph.source("s1"))
    for stage in [*stages[:1], _scatter, grouped, *stages[1:], reduced]:
        stream = stage(stream)
    stream.sink("out", key=_faulty("sink", seed, lambda p: p[0]))
    return graph


@given(SEEDS)
@examples(max_examples=80)
def test_every_failing_function_gives_the_error_item_of_the_reference(seed: int) -> None:
    cluster = _play(_faulty_job(seed), seed, recoveries=seed % 2, dead_letter=DEAD, debug=seed % 3 == 0)
    cluster.check()


def test_all_kinds_of_failure_occur_among_them() -> None:
    seen = set()
    for seed in range(40):
        cluster = _play(_faulty_job(seed), seed, dead_letter=DEAD)
        cluster.check()
        for items in cluster.delivered()[DEAD].values():
            seen |= {
                (error.function.split(".")[-1], error.error)
                for error in (codec.decode(payload) for _, payload in items)
            }
    for role in ("map", "place", "balance", "key", "group", "combine", "emit", "initial", "sink"):
        assert {
            (role, "ValueError"),
            (role, "UserError" if role in ("place", "balance") else "PayloadError"),
        } & seen, role
    assert {("filter", "ValueError"), ("_halfway", "KeyError"), ("_halfway", "PayloadError")} <= seen


@given(SEEDS)
def test_under_fail_everything_stops_at_the_first_run_with_an_error(seed: int) -> None:
    rng = Random(seed)
    graph = _job(_scatter, _index(True), lambda s: s.map(_raise_at(rng.randrange(8, 20))), _scatter)
    cluster = _play(graph, seed, epochs=False, recoveries=seed % 2, heartbeat=1)
    cluster.check()
    failed, holder = cluster.failures(), cluster.minimal
    assert len({told.message for told in failed}) == 1, "said with every report, and always the same"
    assert failed[0].category == "user" and "at 'number" in failed[0].message
    cluster.announce()
    cluster.run()
    assert cluster.commit(), "one last epoch can be cut at the failing run"
    assert cluster.index is not None and cluster.index.cut == holder == cluster.minimal
    assert cluster.failing_run() == holder


def _raise_at(number: int) -> Callable[[Any], Any]:
    def raising(payload: Any) -> Any:
        if int(payload[1]) == number:
            raise ValueError(f"at 'number {number}'")
        return payload[:2]

    return raising


@given(SEEDS)
def test_speculation_that_raises_stops_nothing(seed: int) -> None:
    job = graphs.raises_out_of_order(Random(seed))
    cluster = CoreCluster(job.graph, 3, seed, heartbeat=1).recover()
    for number in range(30):
        cluster.feed(0, job.record(cluster.rng, number))
        cluster.run(cluster.rng.randrange(8))
    cluster.end()
    cluster.run()
    cluster.check()
    assert cluster.complete and not cluster.failures()


def test_some_of_that_speculation_does_raise() -> None:
    held = 0
    for seed in range(20):
        job = graphs.raises_out_of_order(Random(seed))
        cluster = CoreCluster(job.graph, 3, seed).recover()

        def count(frame: Any) -> list[Any]:
            nonlocal held
            held += sum(type(message).__name__ == "Hold" for message in frame.messages)
            return [frame]

        cluster.spoil = count
        for number in range(30):
            cluster.feed(0, job.record(cluster.rng, number))
            cluster.run(cluster.rng.randrange(8))
        cluster.run()
    assert held


@pytest.mark.parametrize("seed", range(6))
def test_at_least_once_loses_nothing(seed: int) -> None:
    """Without the filter a recovery repeats; without the repeats it is the reference's result."""
    cluster = CoreCluster(_job(_index(True), sources=1), 2, seed, exactly_once=False).recover()
    cluster.feed(0, *((LETTERS[i % 3], str(i)) for i in range(20)))
    cluster.run(300)
    cluster.crash(next(iter(cluster.workers)))
    cluster.recover()
    cluster.end()
    cluster.run()
    for sink in cluster.sinks.values():
        sink.taken = {slot: sorted(set(items)) for slot, items in sink.taken.items()}
    cluster.check()
