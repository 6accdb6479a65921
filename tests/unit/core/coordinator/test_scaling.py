"""As many workers are wanted as there is work for, and a load that stays the same moves nobody to and fro."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import pi, sin
from random import Random
from statistics import mean

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flamestream.core.coordinator.coordination import USUAL, Pace
from flamestream.core.coordinator.scaling import HIGH, TARGET, Scaling

SECOND = 1_000_000
ROUND = 2 * SECOND
PACE = Pace(up_us=20 * SECOND, down_us=60 * SECOND)
LATELY = PACE.up_us // ROUND


def lived(scaling: Scaling, load: Sequence[float]) -> list[tuple[int, float]]:
    """The workers that are wanted behind each round and what they have done in it, if there is so much to do, in
    workers' worth. What they do not get done waits, and is seen only by the source that must wait."""
    found, waiting = [], 0.0
    for work in load:
        todo = work + waiting
        done = min(todo, scaling.wanted)
        waiting = todo - done
        scaling.take(ROUND, [done / scaling.wanted] * scaling.wanted, min(1.0, waiting))
        found.append((scaling.wanted, done))
    return found


def live(scaling: Scaling, load: Sequence[float]) -> list[int]:
    """The workers that are wanted behind each round."""
    return [wanted for wanted, _ in lived(scaling, load)]


def new(most: int = 8, wanted: int = 1) -> Scaling:
    return Scaling(1, most, wanted, PACE)


@given(st.floats(0, 12), st.integers(1, 8))
@example(1.24, 2)
@example(4.9, 7)
def test_under_a_load_that_stays_the_same_the_number_settles(work: float, workers: int) -> None:
    wanted = live(new(wanted=workers), [work] * 600)
    assert len(set(wanted[200:])) == 1
    if work <= HIGH:
        assert wanted[-1] <= 2
    elif work < 5.5:
        assert work / wanted[-1] <= HIGH


@given(st.floats(0, 12), st.integers(1, 8))
def test_after_it_has_become_fewer_it_does_not_become_more_under_the_same_load(
    work: float, workers: int
) -> None:
    changes = [
        after - before
        for before, after in pairwise(live(new(wanted=workers), [work] * 600))
        if after != before
    ]
    assert not any(one < 0 < next_ for one, next_ in pairwise(changes))


@given(st.lists(st.tuples(st.integers(1, 90), st.floats(0, 6)), min_size=1, max_size=20))
def test_who_was_let_go_is_missed_only_under_more_load_than_before(steps: list[tuple[int, float]]) -> None:
    load = [work for rounds, work in steps for _ in range(rounds)]
    history = lived(new(), load)
    wanted, done = zip(*history, strict=True)
    changes = [place for place in range(1, len(load)) if wanted[place] != wanted[place - 1]]
    for one, other in pairwise(changes):
        if wanted[one] < wanted[one - 1] and wanted[other] > wanted[other - 1]:
            assert other - one >= LATELY
            assert mean(done[other + 1 - LATELY : other + 1]) > 1.1 * mean(done[one + 1 - LATELY : one + 1])
        if wanted[one] > wanted[one - 1] and wanted[other] < wanted[other - 1]:
            assert other - one >= PACE.down_us // ROUND


@given(st.floats(0.1, 6), st.lists(st.floats(0.94, 1.06), min_size=300, max_size=300))
def test_noise_moves_nobody_to_and_fro(work: float, noise: list[float]) -> None:
    wanted = live(new(), [work * each for each in noise])
    changes = [after - before for before, after in pairwise(wanted) if after != before]
    assert not any(one < 0 < next_ for one, next_ in pairwise(changes))


DAYS: dict[str, Callable[[float], float]] = {
    "sine": lambda at: 0.3 + 1.2 * (1 - sin(pi * (0.5 + 2 * at))),
    "saw": lambda at: 0.4 + 2.6 * at,
    "steps": lambda at: (0.7, 2.1, 1.4, 2.9)[int(4 * at)],
}


@pytest.mark.parametrize("day", DAYS)
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_over_a_day_workers_are_busy_for_60_to_80_percent_of_their_time(day: str, noise: float) -> None:
    rng = Random(1)
    load = [DAYS[day](place / 1_000) * rng.gauss(1, noise) for place in range(1_000)] * 2
    history = lived(Scaling(1, 8, 1, USUAL), load)
    assert 0.6 <= sum(done for _, done in history) / sum(wanted for wanted, _ in history) <= 0.8


@given(st.lists(st.floats(0, 20), min_size=1, max_size=300), st.integers(1, 4), st.integers(0, 4))
def test_it_stays_within_its_bounds(load: list[float], least: int, more: int) -> None:
    scaling = Scaling(least, least + more, 3, PACE)
    assert all(least <= wanted <= least + more for wanted in live(scaling, load))


def test_idle_workers_go_but_for_the_least_and_busy_ones_are_no_more_than_the_most() -> None:
    scaling = Scaling(2, 5, 4, PACE)
    assert live(scaling, [0.0] * 100)[-1] == 2
    assert live(scaling, [9.0] * 100)[-1] == 5


def test_it_follows_a_day() -> None:
    day = [0.3 + 1.2 * (1 - sin(pi * (0.5 + 2 * place / 300))) for place in range(300)] * 2
    wanted = live(new(), day)
    assert set(wanted) == {1, 2, 3, 4}
    changes = [after - before for before, after in pairwise(wanted) if after != before]
    turns = sum(one * other < 0 for one, other in pairwise(changes))
    assert turns <= 3, "up and down once a day"


def test_a_short_burst_moves_nothing() -> None:
    assert set(live(new(), [0.5] * 60 + [1.0] * 7 + [0.5] * 60)) == {1}


def test_a_short_trough_lets_nobody_go() -> None:
    assert set(live(new(wanted=4), [2.8] * 60 + [0.1] * 28 + [2.8] * 60)) == {4}


def test_where_a_source_waits_nobody_is_let_go() -> None:
    scaling = new(wanted=4)
    for _ in range(300):
        scaling.take(ROUND, [0.1] * 4, 0.2)
    assert scaling.wanted == 4


def test_workers_that_can_do_no_more_get_company_until_they_can() -> None:
    wanted = live(new(), [6.0] * 200)
    assert [number for number, before in zip(wanted[1:], wanted, strict=False) if number != before] == [
        2,
        3,
        4,
        6,
        8,
    ]


def test_nothing_is_decided_before_those_that_are_wanted_take_part() -> None:
    scaling = new()
    for _ in range(10):
        scaling.take(ROUND, [1.0], 1.0)
    assert scaling.wanted == 2
    for _ in range(100):
        scaling.take(ROUND, [1.0], 1.0)
        scaling.take(ROUND, [1.0] * 3, 1.0)
    assert scaling.wanted == 2
    assert TARGET < HIGH
