"""Live cuts: what a bucket may not forget."""

import pytest

from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.model.ids import Epoch
from flamestream.model.meta import floor
from flamestream.model.time import Time


def _cuts() -> LiveCuts:
    cuts = LiveCuts(Time(10))
    cuts.advance(Time(30))
    return cuts


def test_committed_announced_and_minimal_time_are_live_ascending() -> None:
    cuts = _cuts()
    cuts.announce(Epoch(1), Time(30))
    cuts.advance(Time(50))
    assert cuts.all == [floor(Time(10)), floor(Time(30)), floor(Time(50))]
    assert cuts.newest == floor(Time(50))


def test_cuts_that_are_equal_are_one() -> None:
    cuts = LiveCuts(Time(10))
    cuts.announce(Epoch(1), Time(10))
    assert cuts.all == [floor(Time(10))]


def test_state_is_at_hand_at_the_committed_and_the_announced_cut_only() -> None:
    cuts = _cuts()
    assert cuts.holds(Time(10)) and not cuts.holds(Time(30))
    cuts.announce(Epoch(1), Time(30))
    cuts.advance(Time(50))
    assert cuts.holds(Time(30)) and not cuts.holds(Time(50))


def test_a_commit_replaces_the_committed_cut_and_ends_the_announced_one() -> None:
    cuts = _cuts()
    cuts.announce(Epoch(1), Time(30))
    cuts.commit(Time(30))
    assert cuts.announced is None and cuts.all == [floor(Time(30))]
    assert not cuts.holds(Time(10))


def test_an_abort_of_another_epoch_leaves_the_announced_one() -> None:
    cuts = _cuts()
    cuts.announce(Epoch(2), Time(30))
    cuts.abort(Epoch(1))
    assert cuts.announced == (2, Time(30))
    cuts.abort(Epoch(2))
    assert cuts.announced is None and cuts.all == [floor(Time(10)), floor(Time(30))]


def test_a_recovery_leaves_only_its_cut() -> None:
    cuts = _cuts()
    cuts.announce(Epoch(2), Time(30))
    cuts.reset(Time(10))
    assert cuts.all == [floor(Time(10))] and cuts.announced is None and cuts.minimal == 10


def test_time_does_not_go_back() -> None:
    cuts = _cuts()
    with pytest.raises(AssertionError, match="went back"):
        cuts.advance(Time(20))
    with pytest.raises(AssertionError, match="went back"):
        cuts.commit(Time(5))


def test_a_cut_is_minimal_time() -> None:
    with pytest.raises(AssertionError, match="is cut at"):
        _cuts().announce(Epoch(1), Time(29))
