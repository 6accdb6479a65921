"""A hand-over: the write that commits its cut ends the job, and until then nothing has changed."""

from flamestream.core.coordinator.coordination import HandOverRequested, WriteRecord
from flamestream.core.protocol import messages as msg
from support.core.coordinating import SECOND, Bench, running, successor


def asked() -> Bench:
    """A job that has come beyond what it has saved."""
    return running("a").epoch(10).beat(20).clear().say(HandOverRequested("next"))


def holding() -> Bench:
    """What was left is saved, and the next epoch holds."""
    bench = asked().cut(20).accept("a", 20).beat(30)
    assert bench.last(msg.Announce).hold
    return bench


def test_one_write_commits_the_epoch_and_ends_the_job() -> None:
    bench = holding()
    before = bench.record
    bench.cut(31).accept("a", 31)
    writes = [action.record for action in bench.actions if isinstance(action, WriteRecord)]
    record = next(each for each in writes if each.committed > before.committed)
    assert (record.cut, record.outcome, record.attempt) == (31, "handed over to next", before.attempt)
    assert bench.end.outcome == "handed over" and bench.last(msg.Stop, "a") is not None
    assert bench.last(msg.Committed, "a").cut < 31, "who is let go releases what is the next job's"


def test_who_has_handed_over_takes_no_part_however_the_other_one_goes_on() -> None:
    """Its record would fit, and its workers would recover from it."""
    bench = holding().cut(31).accept("a", 31)
    other = Bench(bench.outside, "n3", workers=1, takes_over_as="next").say()
    other.connect("z").sleep(SECOND).recover().epoch(40)
    assert (other.record.outcome, other.record.holder, other.record.cut) == ("", "next", 40)
    assert successor(bench, "n4").say().end.outcome == "handed over"


def test_who_would_take_over_what_nobody_has_handed_over_ends() -> None:
    bench = running("a").epoch(10)
    other = Bench(bench.outside, "n3", workers=1, takes_over_as="next").say()
    assert other.end.outcome == "handed over" and bench.record.holder == ""


def test_who_comes_behind_it_says_so_and_takes_no_part() -> None:
    bench = holding().cut(31).accept("a", 31)
    assert successor(bench).say().end.outcome == "handed over"


def test_called_off_while_it_holds_the_job_goes_on() -> None:
    bench = holding().clear().say(HandOverRequested(""))
    assert bench.last(msg.Abort, "a") is not None
    bench.epoch(40)
    assert (bench.record.outcome, bench.record.cut) == ("", 40)


def test_one_that_comes_to_nothing_is_followed_by_an_ordinary_epoch() -> None:
    bench = holding().clear()
    bench.hear("a", msg.Refused(bench.fence, bench.record.announced, "the store is away"))
    bench.run_for(2 * SECOND, 40)
    assert not bench.last(msg.Announce).hold


def test_a_job_that_keeps_nothing_ends_at_once() -> None:
    bench = running("a", interval_us=None).clear().say(HandOverRequested("next")).beat(20)
    assert (bench.record.outcome, bench.end.outcome) == ("handed over to next", "handed over")
