"""Processors: the workers of a machine do not share one, and helper threads are free."""

import os
import threading
from collections.abc import Collection
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from flamestream.machine.processors import keep_to, share
from support import loops


@given(st.sets(st.integers(0, 200), max_size=70), st.integers(1, 70))
def test_shares_are_apart_and_use_every_processor_or_there_are_none(available: set[int], of: int) -> None:
    shares = [share(index, of=of, available=available) for index in range(of)]
    if 2 <= of <= len(available):
        assert all(shares)
        assert sorted(processor for one in shares for processor in one) == sorted(available)
    else:
        assert not any(shares)


def test_a_standby_has_no_share() -> None:
    assert not share(2, of=2, available={0, 1, 2, 3})


def test_helper_threads_of_a_loop_that_is_kept_to_a_processor_run_anywhere() -> None:
    everything = os.sched_getaffinity(0)
    seen: list[Collection[int]] = []

    def kept() -> None:
        keep_to({min(everything)})
        with loops.reactor() as loop:
            loop.background(
                partial(os.sched_getaffinity, 0),
                lambda found: seen.append(found if isinstance(found, set) else set()),
            )
            while not seen:
                loop.turn()
        seen.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=kept)
    thread.start()
    thread.join()
    assert seen == [everything, {min(everything)}]
    assert os.sched_getaffinity(0) == everything
