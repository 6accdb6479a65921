"""A run of real processes: the plain loop between the outside's two."""

import pytest
from harness.drive import drive, record
from systems import SYSTEMS
from systems.base import Cell, Command, Failed, Places
from systems.plain import Plain

CELL = Cell("none", documents=12, warm_up=2, rate=0.0, mean=30)


class Broken(Plain):
    name = "broken"

    def command(self, cell: Cell, places: Places) -> Command:
        return Command(["python3", "-c", "raise SystemExit('it is broken')"])


def test_the_plain_loop_loses_doubles_and_disorders_nothing() -> None:
    outcome = drive(SYSTEMS["plain loop"], CELL, 60)
    assert (outcome.lost, outcome.doubled, outcome.disorder) == (0, 0, 0)
    assert len(outcome.latencies) == 10 and outcome.records > 100


def test_a_record_of_a_run_says_what_ran_where_and_how() -> None:
    plain = SYSTEMS["plain loop"]
    row = record(plain, CELL, drive(plain, CELL, 60), {"load": 1.0})
    assert (
        row["versions"]
        and row["settings"][0]["reason"]
        and row["machine"]["cores"]
        and row["cell"]["documents"] == 12
    )


def test_a_run_that_passes_its_deadline_is_unfinished_not_whole() -> None:
    outcome = drive(
        SYSTEMS["plain loop"], CELL.__class__("none", documents=500, warm_up=1, rate=5.0, mean=30), 2
    )
    assert outcome.row()["unfinished"] and outcome.lost > 0


def test_a_system_that_ends_is_a_failed_run_with_its_last_words() -> None:
    with pytest.raises(Failed, match="it is broken"):
        drive(Broken(), CELL, 60)
