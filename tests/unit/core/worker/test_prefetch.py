"""A worker has the committed snapshot in its state before it is given slots of it: taking over reads what is newer
alone, and gives the same as if all had been read then."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.chain import chains_of
from flamestream.model.collections import Vector
from flamestream.model.graph import Graph
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.kernel import kernel
from flamestream.model.layout import Layout
from support.core.core_cluster import CoreCluster

PARTS = [REFERENCE, *([] if kernel is None else [native(kernel)])]
WORDS = [letter + str(number) for number in range(3) for letter in "abcdefgh"]
A, B = WorkerId("w0"), WorkerId("w1")


def _graph(*names: str) -> Graph:
    """A list of words for each letter, long enough that most of its rows are changes of it, and the last three."""
    graph = Graph("g")
    words = graph.source("s0")
    for name in names or ("grown",):
        words.reduce(
            key=lambda word: word[0], initial=Vector, combine=lambda words, word: words.append(word),
            emit=lambda words, word: (word[0], "".join(words)), name=name,
        ).sink(name, key=lambda pair: pair[0])  # fmt: skip
    words.group(3, key=lambda word: word[0]).map(repr).sink("threes", key=lambda text: text)
    return graph


def _cluster(parts: Parts = REFERENCE, workers: int = 1, **changes: Any) -> CoreCluster:
    cluster = CoreCluster(_graph(), workers, parts=parts, **changes).recover()
    return _grown(cluster)


def _grown(cluster: CoreCluster) -> CoreCluster:
    """An epoch more is committed."""
    cluster.feed(0, *WORDS)
    cluster.run()
    cluster.save()
    return cluster


def _warmed(cluster: CoreCluster, name: WorkerId, slots: Sequence[Slot] = ()) -> None:
    assert cluster.index is not None
    warm = msg.Warm(cluster.fence, cluster.index.of_states, list(slots))
    cluster._words[name].append(ev.FromCoordinator(warm))
    cluster.run()


def _laid_out(cluster: CoreCluster, owner: WorkerId) -> None:
    """Recoveries give everything to one worker."""
    layout, fronts = cluster.layout, tuple(owner for _ in cluster.layout.fronts)
    given = Layout(layout.version, (owner,) * len(layout.owners), fronts, owner)
    cluster.lay_out = lambda: given  # type: ignore[method-assign]


def _given(cluster: CoreCluster, owner: WorkerId) -> None:
    """All slots are given to one worker."""
    _laid_out(cluster, owner)
    for other in set(cluster.workers) - {owner}:
        cluster.crash(other)
    cluster.recover()


def _finish(cluster: CoreCluster) -> None:
    cluster.feed(0, *WORDS)
    cluster.end()
    cluster.run()
    cluster.check()
    assert cluster.complete


def _loads(cluster: CoreCluster, name: WorkerId) -> list[act.Load]:
    return [action for who, action in cluster.done if isinstance(action, act.Load) and who == name]


@pytest.mark.parametrize("parts", PARTS, ids=["reference", "kernel"][: len(PARTS)])
def test_a_standby_that_takes_over_reads_what_was_committed_since_and_no_more(parts: Parts) -> None:
    cluster = _cluster(parts)
    cluster.add()
    for _ in range(2):  # the second time it is told what one commit more has
        _warmed(cluster, B)
        _grown(cluster)
    _given(cluster, B)
    (load,) = _loads(cluster, B)
    assert load.after == 2 and {row.epoch for ref in load.segments for row in cluster.segments[ref.name]} == {
        3
    }
    assert any(not row.full for ref in load.segments for row in cluster.segments[ref.name]), (
        "else it is no test"
    )
    _finish(cluster)


def test_rows_go_into_the_state_a_slice_a_pass_and_a_recovery_takes_the_rest() -> None:
    cluster = _cluster(slice_size=1)
    cluster.add()
    cluster.held.add(act.Prefetch)
    _warmed(cluster, B)
    (ahead,) = [each for name, each in cluster._waiting if isinstance(each, act.Prefetch) and name == B]
    cluster.held.clear()
    cluster._waiting.clear()
    rows = cluster._rows(ahead.segments, ahead.slots, ahead.after)

    chains = chains_of(rows)
    woken = 0
    actions = cluster.step(B, ev.Prefetched(ahead.number, chains))
    while any(isinstance(each, act.Wake) for each in actions) and woken < len(chains) // 2:
        woken, actions = woken + 1, cluster.step(B, ev.Woken())
    assert woken == len(chains) // 2 > 2
    _given(cluster, B)
    assert [load.after for load in _loads(cluster, B)] == [1]
    _finish(cluster)


def _of_other_slots(cluster: CoreCluster) -> None:
    _warmed(cluster, B, [Slot(0), Slot(1)])


def _of_a_store_that_is_away(cluster: CoreCluster) -> None:
    cluster.held.add(act.Prefetch)
    _warmed(cluster, B)
    cluster.held.clear()
    cluster._waiting.clear()
    cluster.step(B, ev.Prefetched(1, None))


def _forgotten(cluster: CoreCluster) -> None:
    _warmed(cluster, B)
    cluster._words[B].append(ev.FromCoordinator(msg.Warm(cluster.fence)))
    cluster.run()


@pytest.mark.parametrize("what", [_of_other_slots, _of_a_store_that_is_away, _forgotten])
def test_all_is_loaded_where_not_all_is_at_hand(what: Callable[[CoreCluster], None]) -> None:
    cluster = _cluster()
    cluster.add()
    what(cluster)
    _given(cluster, B)
    assert [(load.after, len(load.slots)) for load in _loads(cluster, B)] == [(-1, 16)]
    _finish(cluster)


def _taking_over() -> CoreCluster:
    """A standby that is warm takes over, and its load is not answered yet."""
    cluster = _cluster()
    cluster.add()
    _warmed(cluster, B)
    _grown(cluster)
    cluster.held.add(act.Load)
    _laid_out(cluster, B)
    cluster.crash(A)
    cluster.begin()
    return cluster


def test_a_second_recovery_before_the_first_has_loaded_finds_the_same_at_hand() -> None:
    cluster = _taking_over()
    cluster.held.clear()
    cluster._waiting.clear()
    cluster.recover()
    assert [load.after for load in _loads(cluster, B)] == [1, 1]
    _finish(cluster)


def test_behind_a_load_that_failed_all_is_loaded_anew() -> None:
    """Some of the changes stand behind what was at hand already."""
    cluster = _taking_over()
    (load,) = _loads(cluster, B)
    rows = cluster._rows(load.segments, load.slots, load.after)
    lone = rows[-1]._replace(key=b"nobody", full=False)
    cluster.held.clear()
    cluster._waiting.clear()
    cluster.step(B, ev.Loaded(cluster.fence, chains_of([*rows, lone])))
    assert cluster.heard(msg.Failed)
    cluster.recover()
    assert [each.after for each in _loads(cluster, B)] == [1, -1]
    _finish(cluster)


def test_rows_that_cannot_be_read_are_told_and_not_read_again_before_a_recovery() -> None:
    cluster = _cluster()
    cluster.add()
    cluster.held.add(act.Prefetch)
    _warmed(cluster, B)
    (ahead,) = [each for name, each in cluster._waiting if isinstance(each, act.Prefetch) and name == B]
    rows = cluster._rows(ahead.segments, ahead.slots, ahead.after)
    lone = rows[-1]._replace(key=b"nobody", full=False)
    cluster.held.clear()
    cluster._waiting.clear()
    cluster.step(B, ev.Prefetched(ahead.number, chains_of([*rows, lone])))
    cluster.run()
    asked = len([each for _, each in cluster.done if isinstance(each, act.Prefetch)])
    for _ in range(3):
        _grown(cluster)
        _warmed(cluster, B)
    assert len([each for _, each in cluster.done if isinstance(each, act.Prefetch)]) == asked
    prefetch = cluster.workers[B]._rejoin.prefetch
    assert "cannot be read ahead" in prefetch.problem and not prefetch.warm
    _given(cluster, B)
    assert [load.after for load in _loads(cluster, B)] == [-1]
    _finish(cluster)


def test_what_is_committed_of_a_slot_never_takes_the_place_of_its_state() -> None:
    cluster = _cluster(workers=2)
    cluster.feed(0, *WORDS)
    cluster.run()
    for name in (A, B):
        _warmed(cluster, name)
        _warmed(cluster, name, [Slot(slot) for slot in range(8)])
    _finish(cluster)


def test_who_is_left_out_of_an_attempt_is_a_standby_like_any_other() -> None:
    cluster = _cluster(workers=2)
    _laid_out(cluster, A)
    cluster.silent = {B}
    cluster.recover()
    _grown(cluster)
    cluster.silent.clear()
    cluster._words[B].clear()
    _warmed(cluster, B)
    _given(cluster, B)
    assert [load.after for load in _loads(cluster, B)] == [2]
    _finish(cluster)


def test_an_operation_that_went_and_came_back_has_none_of_the_rows_that_were_read_ahead() -> None:
    graphs = _graph("grown", "gone"), _graph("grown")
    cluster = CoreCluster(graphs[0], 1).recover()
    _grown(cluster)
    standby = cluster.add()
    _warmed(cluster, standby)
    waits = {name: cluster.__dict__[name][standby] for name in ("workers", "_answers", "_words")}
    _grown(cluster.change(graphs[1], drop=["gone"]))
    cluster.change(graphs[0])
    for name, its in waits.items():
        cluster.__dict__[name][standby] = its
    _grown(cluster)
    _given(cluster, standby)
    assert [load.after for load in _loads(cluster, standby)] == [-1]
