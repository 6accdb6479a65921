"""An upgrade: when other code takes over, and what it costs the stream until then: nothing."""

from typing import Any

from flamestream.core.coordinator.changes.upgrade import TURNED
from flamestream.core.coordinator.coordination import (
    Settings,
    UpgradeInherited,
    UpgradeRequested,
    WriteRecord,
)
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.snapshot import Inventory, SegmentRef, SlotOutput
from flamestream.model.ids import SequenceNumber, SinkName, Slot
from flamestream.model.meta import meta_of
from flamestream.model.time import Time
from support.core.coordinating import BASE, MS, SECOND, Bench, settings, successor

NAMES = Inventory((), (), ())
"""Both graphs have no state, so either goes on from the other's snapshot."""
OLD: dict[str, Any] = {"code": "old", "inventory": NAMES}
NEXT: dict[str, Any] = {"graph": "other", "code": "new", "inventory": NAMES}


def wanted(**changes: Any) -> Settings:
    return settings(**{"workers": 1, **NEXT, **changes})


def asked(**changes: Any) -> Bench:
    """A job that runs `old` on worker a, has come beyond what it has saved, and is to go on with `new`."""
    bench = runs_old().epoch(10, segments=[SegmentRef("s", 100, "", 1, (Slot(0),))]).beat(20)
    return bench.say(UpgradeRequested(wanted(**changes))).clear()


def runs_old() -> Bench:
    bench = Bench(**{**OLD, "workers": 1}).say()
    return bench.say(bench.hello("a", code="old")).recover().clear()


def ahead(bench: Bench, *workers: str) -> Bench:
    """Workers of the new code come, and have the snapshot at hand."""
    for worker in workers:
        bench.say(bench.hello(worker, graph="other", code="new"))
        bench.progress(worker, warm=True)
    return bench


def holding(bench: Bench) -> Bench:
    """Its workers are there; what was left is saved, and the next epoch holds."""
    ahead(bench, "z").cut(20).accept("a", 20).beat(30)
    assert bench.last(msg.Announce).hold
    return bench


def test_one_write_commits_the_epoch_and_begins_the_attempt_of_the_new_code() -> None:
    bench = holding(asked())
    before = bench.record
    bench.cut(31).accept("a", 31)
    writes = [action.record for action in bench.actions if isinstance(action, WriteRecord)]
    record = next(each for each in writes if each.committed > before.committed)
    assert (record.cut, record.code, record.attempt) == (31, "new", before.attempt + 1)
    assert record.layout.workers == ("z",)
    recover = bench.last(msg.Recover, "z")
    assert (recover.cut, recover.index.graph) == (31, "g")  # what the old graph has saved


def test_the_workers_before_are_told_to_stop_and_take_no_part_any_more() -> None:
    bench = holding(asked())
    bench.cut(31).accept("a", 31)
    assert bench.last(msg.Stop, "a").reason == TURNED
    bench.recover().clear()
    bench.say(bench.hello("a", code="old"))  # one that had not heard it
    assert bench.last(msg.Stop, "a").reason == TURNED


def test_nothing_is_held_before_its_workers_have_the_snapshot() -> None:
    bench = asked(warm_us=60 * SECOND)
    bench.say(bench.hello("z", graph="other", code="new"))
    bench.run_for(2 * SECOND, 20)
    assert not any(message.hold for _, message in bench.told if isinstance(message, msg.Announce))


def test_what_is_left_is_saved_first_so_that_little_is_held_for() -> None:
    bench = ahead(asked(), "z")
    assert not bench.last(msg.Announce).hold
    bench.cut(20).accept("a", 20).beat(30)
    assert bench.last(msg.Announce).hold


def test_a_worker_of_the_new_code_takes_nothing_over_before() -> None:
    bench = ahead(asked(grace_us=MS), "z").clear()
    bench.lose("a").sleep(2 * SECOND)
    assert bench.last(msg.Recover) is None and bench.record.code == "old"


def test_a_graph_that_the_snapshot_does_not_fit_is_refused_before_anything_is_held() -> None:
    bench = ahead(asked(slots=8), "z")
    assert "number of slots" in bench.status.refusal
    assert "refused" in bench.last(msg.Stop, "z").reason
    assert not any(message.hold for _, message in bench.told if isinstance(message, msg.Announce))


def test_called_off_while_it_holds_it_lets_go() -> None:
    bench = holding(asked()).clear()
    bench.say(UpgradeRequested(None))
    assert bench.last(msg.Abort, "a").epoch == bench.record.announced
    assert bench.last(msg.Stop, "z") is not None
    bench.epoch(40)
    assert (bench.record.code, bench.record.cut) == ("old", 40)


def test_called_off_while_its_tick_is_written_it_is_made() -> None:
    bench = holding(asked())
    bench.held.add(WriteRecord)
    bench.cut(31).accept("a", 31)
    bench.clear().say(UpgradeRequested(None))
    assert bench.last(msg.Abort) is None
    bench.held.clear()
    bench.release(bench.pending.pop())
    assert bench.record.code == "new" and bench.last(msg.Recover, "z") is not None


def test_one_that_comes_to_nothing_is_followed_by_an_ordinary_epoch() -> None:
    """A store that is away, or a job in which nothing moves, must not keep the stream from saving."""
    bench = holding(asked()).clear()
    bench.hear("a", msg.Refused(bench.fence, bench.record.announced, "the store is away"))
    bench.run_for(2 * SECOND, 40)
    assert not bench.last(msg.Announce).hold


def test_without_a_worker_of_its_own_it_lets_go() -> None:
    bench = holding(asked()).clear()
    bench.lose("z").beat(40)
    assert bench.last(msg.Abort, "a") is not None


def test_who_comes_behind_a_tick_goes_on_with_what_it_has_made() -> None:
    bench = holding(asked())
    bench.cut(31).accept("a", 31)
    own = {**BASE, "workers": 1, **OLD}
    next_one = Bench(bench.outside, "n2", **own).say(UpgradeRequested(wanted()))
    next_one.say(next_one.hello("z", graph="other", code="new")).sleep(3 * SECOND)
    assert next_one.finish is None
    assert next_one.last(msg.Recover, "z") is not None and next_one.record.code == "new"


def test_who_was_told_which_code_runs_steps_back_from_a_record_with_another() -> None:
    bench = holding(asked())
    bench.cut(31).accept("a", 31)
    assert successor(bench, **OLD, code_told=True).say().end.outcome == "fenced"


def test_the_code_that_runs_is_no_upgrade() -> None:
    bench = runs_old().epoch(10).clear()
    bench.say(UpgradeRequested(settings(**OLD))).beat(20)
    bench.run_for(SECOND, 30)
    assert not bench.last(msg.Announce).hold


WATCHED: dict[str, Any] = {"watch_us": 60 * SECOND, "keep_us": 60 * SECOND}


def turned(**changes: Any) -> Bench:
    """The new code runs on z, a is kept."""
    bench = holding(asked(**{**WATCHED, **changes}))
    bench.cut(31).accept("a", 31)
    bench.recover().beat(40)
    return bench.clear()


def test_workers_of_the_code_before_are_kept_for_a_while() -> None:
    bench = turned(watch_us=SECOND, keep_us=5 * SECOND)
    for _ in range(3):
        bench.progress("a").run_for(SECOND, 50)
    assert bench.last(msg.Stop, "a") is None
    for _ in range(4):
        bench.progress("a").run_for(SECOND, 60)
    assert bench.last(msg.Stop, "a").reason == TURNED


def test_new_code_that_raises_is_taken_back_instead_of_failing_the_job() -> None:
    bench = turned()
    bench.hear("z", msg.Failed(bench.fence, "user", "it raised ValueError"))
    bench.progress("a", warm=True).beat(40)
    assert "taken back: it raised ValueError" in bench.status.refusal
    if not bench.last(msg.Announce).hold:
        bench.cut(40).accept("z", 40).beat(40)
    assert bench.last(msg.Announce).hold
    bench.cut(40).accept("z", 40)
    assert (bench.record.code, bench.record.taken_back, bench.finish) == ("old", "new", None)
    assert bench.last(msg.Recover, "a").cut == 40
    assert bench.last(msg.Stop, "z") is not None


def inherited(bench: Bench) -> Bench:
    """The next coordinator, which is told what runs, finds all of them, and hears what ran before."""
    its = {**NEXT, **WATCHED, "code_told": True, "workers": 1}
    before = settings(**{**BASE, "workers": 1, **OLD})
    behind = successor(bench, **its).say(behind_hello(bench, "z"), UpgradeInherited(before))
    behind.say(behind.hello("a", code="old")).progress("a", warm=True).sleep(SECOND)
    assert behind.status.code == "new" and behind.status.phase == "running"
    return behind


def behind_hello(bench: Bench, worker: str) -> Any:
    """A worker that runs on, as it dials the next coordinator."""
    return bench.hello(worker, bench.fence, ready=True, graph="other", code="new")


def test_who_begins_behind_a_tick_watches_on_and_takes_back() -> None:
    bench = inherited(turned())
    assert (bench.status.before, bench.status.watched) == ("old", True)
    bench.hear("z", msg.Failed(bench.fence, "user", "it raised ValueError"))
    bench.progress("a", warm=True).beat(40)
    assert "taken back: it raised ValueError" in bench.status.refusal
    while not bench.last(msg.Announce).hold:
        bench.cut(40).accept("z", 40).beat(40)
    bench.cut(40).accept("z", 40)
    assert (bench.record.code, bench.record.taken_back, bench.finish) == ("old", "new", None)
    assert bench.last(msg.Recover, "a").cut == 40


def test_workers_of_the_code_before_that_dial_sooner_than_the_record_is_read_are_kept() -> None:
    """As they do: they all dial at once, and the first one has the coordinator begin."""
    bench = turned()
    its = {
        **{name: getattr(bench.settings, name) for name in BASE},
        **NEXT,
        **WATCHED,
        "code_told": True,
        "workers": 1,
    }
    before = settings(**{**BASE, "workers": 1, **OLD})
    behind = Bench(bench.outside, "n2", **its)
    behind.say(UpgradeInherited(before), behind.hello("a", code="old"), behind_hello(bench, "z"))
    behind.progress("a", warm=True).sleep(SECOND)
    assert behind.last(msg.Stop, "a") is None and (behind.status.before, behind.status.watched) == (
        "old",
        True,
    )
    behind.hear("z", msg.Failed(bench.fence, "user", "it raised ValueError"))
    assert "taken back: it raised ValueError" in behind.status.refusal


def test_who_begins_behind_a_tick_has_not_seen_the_error_items_before_and_takes_none_for_new() -> None:
    """The code before may have given as many."""
    bench = inherited(turned())
    for _ in range(10):
        bench.progress("a", warm=True).progress("z", errors=50).sleep(100 * MS)
    assert bench.status.watched and not bench.status.refusal


def test_who_begins_behind_a_tick_takes_the_code_for_one_that_has_given_results() -> None:
    """(!) It may have, above the tick's cut: the way back begins above all that has left."""
    bench = inherited(turned())
    loses_all(bench, 3, 0)
    assert "workers of the new code were lost 3 times" in bench.status.refusal
    assert bench.record.code == "new", "an attempt that gives again what has left comes first"


def test_a_job_whose_code_is_watched_no_more_fails_of_what_it_raises() -> None:
    bench = turned(watch_us=SECOND).run_for(3 * SECOND, 50)
    bench.hear("z", msg.Failed(bench.fence, "user", "it raised ValueError"))
    assert bench.status.phase == "ending"


def test_code_that_was_taken_back_is_not_taken_once_more() -> None:
    """A coordinator that starts is told what was asked for: it must not try again what has failed."""
    bench = turned()
    bench.hear("z", msg.Failed(bench.fence, "user", "it raised ValueError"))
    bench.progress("a", warm=True).beat(40)
    while not bench.last(msg.Announce).hold:
        bench.cut(40).accept("z", 40).beat(40)
    bench.cut(40).accept("z", 40)
    own = {**BASE, "workers": 1, **OLD}
    next_one = Bench(bench.outside, "n2", **own).say(UpgradeRequested(wanted()))
    next_one.say(next_one.hello("a", bench.fence, ready=True, code="old")).sleep(SECOND)
    assert "taken back" in next_one.status.refusal and next_one.status.code == "old"


def loses_all(bench: Bench, times: int, begin: int) -> Bench:
    """The new code's worker dies so often, and its next life comes."""
    for life in range(begin, begin + times):
        bench.lose(bench.workers[0]).say(bench.hello(f"z{life}", graph="other", code="new"))
        for _ in range(10):
            bench.progress("a", warm=True).progress(f"z{life}").sleep(100 * MS)
    return bench


def test_who_has_lost_a_worker_is_watched_for_as_long_again() -> None:
    """The third may be lost when the time since the tick is over, and the code before must still be there."""
    bench = turned(watch_us=3 * SECOND, keep_us=3 * SECOND)
    for life in range(2):
        loses_all(bench, 1, life).recover().run_for(SECOND, 40)
    loses_all(bench, 1, 2)
    assert "workers of the new code were lost 3 times" in bench.status.refusal


def test_a_silent_worker_does_not_wait_for_the_end_of_its_watch() -> None:
    bench = turned(watch_us=SECOND, keep_us=SECOND, heartbeat_us=4 * SECOND)
    for _ in range(30):
        bench.progress("a", warm=True).sleep(100 * MS)
    assert bench.last(msg.Stop, "a") is None, "z has not been heard of for three seconds"
    bench.progress("a", warm=True).run_for(SECOND, 50)
    assert bench.last(msg.Stop, "a").reason == TURNED


def test_new_code_that_kills_its_workers_gives_again_what_has_left_and_goes_back_from_there() -> None:
    """What kills it is above: an attempt that read on would die of it before the tick."""
    bench = turned()
    for life in range(2):
        loses_all(bench, 1, life).recover().beat(40)
        assert not bench.last(msg.Replay).drained
    loses_all(bench, 1, 2).recover(
        [SlotOutput(SinkName("out"), Slot(0), SequenceNumber(7), meta_of(Time(45), 0))]
    )
    assert bench.last(msg.Replay, "z2").drained and bench.last(msg.Replay, "z2").released == 45
    bench.progress("a", warm=True).beat(46, drained=True)
    while not bench.last(msg.Announce, "z2").hold:
        bench.cut(46).accept("z2", 46).beat(46, drained=True)
    bench.cut(46).accept("z2", 46)
    assert (bench.record.code, bench.record.taken_back, bench.record.cut) == ("old", "new", 46)
    assert "lost 3 times" in bench.status.refusal and not bench.recover().last(msg.Replay, "a").drained


def test_new_code_that_never_comes_to_run_goes_back_without_an_epoch() -> None:
    """It has given nothing, so all above the tick's cut is still the code's before."""
    bench = holding(asked(**WATCHED))
    bench.cut(31).accept("a", 31).clear()
    loses_all(bench, 3, 0)
    assert (bench.record.code, bench.record.taken_back, bench.record.cut) == ("old", "new", 31)
    assert bench.count(msg.Replay) == bench.count(msg.Announce) == 0
    assert not bench.recover().last(msg.Replay, "a").drained


def test_new_code_that_has_not_run_when_its_watch_is_over_goes_back() -> None:
    bench = holding(asked(watch_us=SECOND, keep_us=SECOND))
    bench.cut(31).accept("a", 31)
    for _ in range(12):
        bench.sleep(100 * MS).progress("a", warm=True).progress("z")
    assert (bench.record.code, bench.record.taken_back) == ("old", "new")
    assert "has not come to run within 1 s" in bench.status.refusal


def test_code_that_has_run_and_cannot_recover_fails_its_job() -> None:
    """It has given results that the code before would give otherwise, and cannot give them again."""
    bench = loses_all(turned(), 1, 0)
    bench.hear("z0", msg.Failed(bench.fence, "user", "it raised ValueError"))
    assert bench.end.category == "user" and bench.record.code == "new"


def test_workers_that_only_give_again_what_has_left_are_recovered_where_nobody_goes_back() -> None:
    """A coordinator that was on its way back may be gone: its successor would wait for ever."""
    bench = turned().beat(40, drained=True)
    assert bench.last(msg.Recover, "z") is not None


def test_who_goes_back_by_hand_may_go_on_again() -> None:
    """Nothing has failed: only what was taken back is not tried once more."""
    bench = turned().progress("a", warm=True).say(UpgradeRequested(settings(**OLD, workers=1))).beat(40)
    while not bench.last(msg.Announce).hold:
        bench.cut(40).accept("z", 40).beat(40)
    bench.cut(40).accept("z", 40)
    assert (bench.record.code, bench.record.taken_back) == ("old", "")


def test_as_many_take_part_as_the_new_settings_say() -> None:
    bench = asked(workers=2)
    ahead(bench, "y", "z").cut(20).accept("a", 20).beat(30)
    bench.cut(31).accept("a", 31).recover().clear()
    assert bench.record.layout.workers == ("y", "z")
    assert bench.status.wanted == 2


def test_where_their_number_follows_the_load_the_new_bounds_count() -> None:
    bench = asked(workers=1, least_workers=2, most_workers=3, standbys=0)
    assert bench.status.wanted == 1
    ahead(bench, "y", "z").cut(20).accept("a", 20).beat(30)
    bench.cut(31).accept("a", 31).recover().clear()
    assert bench.record.layout.workers == ("y", "z")
    assert bench.status.wanted == 2
