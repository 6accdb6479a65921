"""Workers of two releases are connected while the image changes: those of one make up an attempt."""

from flamestream.core.coordinator.coordination import WorkerGone
from flamestream.core.protocol import messages as msg
from flamestream.model.ids import WorkerId
from support.core.coordinating import MS, SECOND, Bench, running

OLD, NEW = "", "of the new release"


def rolling(*new: str, standby: str = "", **changes: int) -> Bench:
    """Two workers of the old release run, and those of the new one are there."""
    bench = running("a", "b", **changes)
    return bench.connect(*filter(None, [standby]), vocabulary=OLD).connect(*new, vocabulary=NEW)


def retire(bench: Bench, *workers: str) -> None:
    """Their pods are taken away: an application's, at once."""
    bench.say(*(WorkerGone(WorkerId(worker)) for worker in workers))


def test_who_is_lost_is_not_replaced_by_a_worker_of_another_release() -> None:
    bench = rolling("n", standby="z")
    bench.lose("b")
    assert bench.workers == ("a", "z")


def test_where_more_are_of_the_new_release_they_take_over_together() -> None:
    bench = rolling("n1", "n2")
    bench.lose("b")
    assert {*bench.workers} == {"n1", "n2"}
    assert bench.count(msg.Recover) == 2


def test_an_application_of_two_that_gets_the_new_image_waits_for_the_other() -> None:
    bench = rolling("n1", "n2", standby="z")
    retire(bench, "a")
    assert {*bench.workers} == {"b", "z"}
    retire(bench, "b", "z")
    assert {*bench.workers} == {"n1", "n2"}


def test_with_too_few_of_each_as_many_go_on_as_are_of_one() -> None:
    bench = rolling("n", grace_us=700 * MS)
    bench.lose("b").sleep(SECOND)
    assert bench.workers == ("a",)


def test_a_worker_of_another_release_is_nobody_who_has_joined() -> None:
    bench = running("a", "b", "c", rebalance_pause_us=0, interval_us=None)
    bench.lose("c").sleep(SECOND).recover()
    attempt = bench.record.attempt
    assert bench.connect("n", vocabulary=NEW).run_for(SECOND).record.attempt == attempt
    assert {*bench.connect("d", vocabulary=OLD).run_for(SECOND).workers} == {"a", "b", "d"}


def test_an_attempt_of_two_releases_that_was_begun_elsewhere_goes_on_with_those_of_one() -> None:
    bench = running("a", "b")
    bench.connect("n", "b", vocabulary=NEW)
    assert {*bench.workers} == {"b", "n"}


def test_a_start_waits_for_a_full_house_of_one_release() -> None:
    bench = Bench().say().connect("a", vocabulary=OLD).connect("n1", vocabulary=NEW)
    assert bench.outside.record is None
    assert {*bench.connect("n2", vocabulary=NEW).workers} == {"n1", "n2"}
