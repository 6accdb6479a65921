"""The table of productions says what each door adds, of what was measured under both guarantees."""

from harness.tables.productions import Row, productions_table


def row(doors: int, guarantee: str, p50: float, p99: float) -> Row:
    fixed = {"p50_ms": p50, "p99_ms": p99}
    return {"doors": doors, "guarantee": guarantee, "result": {"fixed": fixed}, "noise": {"load": 1.0}}


def test_what_is_more_is_divided_by_the_doors() -> None:
    rows = [row(4, "exactly-once", 1.0, 5.0), row(4, "strong-productions", 9.0, 25.0)]
    assert productions_table(rows).splitlines()[2] == "| 4 | 1.0 / 5.0 | 9.0 / 25.0 | 2.0 / 5.0 | 1.0 |"


def test_what_was_measured_under_one_guarantee_has_no_line() -> None:
    assert productions_table([row(1, "exactly-once", 1.0, 2.0)]).splitlines()[2:] == []
