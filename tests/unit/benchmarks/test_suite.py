"""What is run, and in which order."""

import argparse

from harness import suite
from systems.base import EXACTLY_ONCE, NONE
from systems.plain import Plain


class Fake(Plain):
    name = "fake"
    guarantees = (NONE, EXACTLY_ONCE)

    def __init__(self, pace: float | None = None, settles: float = 0.0) -> None:
        self.pace, self.settles = pace, settles


def options(**more: str | float) -> argparse.Namespace:
    given = {
        "guarantees": "",
        "intervals": "50,1000",
        "documents": 1500,
        "warm_up": 300,
        "rate": 50.0,
        "workers": 2,
    }
    return argparse.Namespace(**given | more)


def test_each_round_begins_with_another_cell_and_measures_all() -> None:
    rounds = [suite.rotated(["a", "b", "c"], turn) for turn in range(3)]
    assert rounds == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    assert suite.rotated([], 2) == []


def test_a_cell_a_guarantee_and_interval_but_one_without_checkpoints() -> None:
    cells = [(cell.guarantee, cell.interval_ms) for _, cell in suite.cells(options(), [Fake()])]
    assert cells == [(NONE, 50), (EXACTLY_ONCE, 50), (EXACTLY_ONCE, 1000)]


def test_guarantees_can_be_chosen() -> None:
    assert {cell.guarantee for _, cell in suite.cells(options(guarantees="none"), [Fake()])} == {NONE}


def test_a_slow_system_gets_less_so_that_it_ends() -> None:
    assert suite.load(options(), Fake(pace=2.0)) == (120, 40, 2.0)
    assert suite.load(options(rate=0.0), Fake(pace=2.0)) == (120, 40, 0.0)
    assert suite.load(options(), Fake()) == (1500, 300, 50.0)


def test_a_slow_start_makes_the_warm_up_longer_and_not_the_measurement_shorter() -> None:
    assert suite.load(options(), Fake(settles=10.0)) == (1700, 500, 50.0)
    assert suite.load(options(), Fake(settles=2.0)) == (1500, 300, 50.0)
    assert suite.load(options(rate=0.0), Fake(settles=10.0)) == (1500, 300, 0.0)


def test_a_figure_of_the_paper_is_ours_beside_flink_at_its_interval() -> None:
    wanted = options(what="fig11", systems="", intervals="")
    suite.narrow(wanted)
    assert (wanted.systems, wanted.intervals) == ("flamestream,flink,flink 1 ms", "500")


def test_the_command_line_wins_over_the_figure() -> None:
    wanted = options(what="fig11", systems="flink", intervals="70")
    suite.narrow(wanted)
    assert (wanted.systems, wanted.intervals) == ("flink", "70")
