"""The table of transactions has the median of the rounds of each case, and what is asked beside it."""

from typing import Any

from harness.tables.bank import NOBODY, PLAIN, STEADY, Row, bank_table
from harness.tables.isolation import isolation_table


def row(measure: str, case: str, load: float = 1.0, **result: Any) -> Row:
    return {"measure": measure, "case": case, "result": result, "noise": {"load": load}}


def faultless(**more: Any) -> dict[str, Any]:
    return {"lost": 0, "doubled": 0, "wrong": 0, "n": 10} | more


def test_a_peer_stands_beside_ours_of_the_same_run_with_the_spread_of_the_rounds() -> None:
    rows = [
        *(
            row("rate", "flamestream, one worker", **faultless(per_s=rate))
            for rate in (20_000, 10_000, 40_000)
        ),
        row("rate", "PostgreSQL", load=3.0, per_s=5_000, n=100, retries=7, checked=100),
        row("rate", "Redis", reason="no Redis server"),
    ]
    assert bank_table(rows).splitlines()[2:5] == [
        "| flamestream, one worker | 20,000 (10,000 to 40,000) | 1.00 | - | 0, 0, 0 | 1.0 |",
        "| PostgreSQL | 5,000 | 0.25 | 7 of 100 | its sums are right | 3.0 |",
        "| Redis | no Redis server | - | - | - | 1.0 |",
    ]


def line(rows: list[Row], at: int = 0) -> str:
    return bank_table(rows).splitlines()[2 + at]


def paced(p50: float, p99: float, *, carried: bool = True) -> dict[str, Any]:
    return {"rate": 1, "mean_ms": p50, "p50_ms": p50, "p99_ms": p99, "carried": carried}


def test_a_rate_that_was_not_carried_is_marked() -> None:
    its = row("latency", "flamestream", **faultless(**{"21448/s": paced(900.0, 2000.0, carried=False)}))
    assert "| 900.0 / 2000.0 ms, behind: it carries less | 3.7 ms mean | 0, 0, 0 |" in line([its])


def test_a_transfer_stands_beside_a_reduce() -> None:
    rows = [
        row("idle", "uniform", **faultless(**{"100/s": paced(1.5, 7.0)})),
        row("idle", "reduce", **faultless(**{"100/s": paced(1.2, 4.0)})),
    ]
    assert "| +0.30 ms | +0.4 ms |" in line(rows, 2)


def test_contention_is_told_as_a_share_of_none() -> None:
    rows = [
        row("hot", case, **faultless(**{"5000/s": paced(1.0, 2.0)}, per_s=rate))
        for case, rate in (("uniform", 30_000), ("one hot account", 24_000))
    ]
    assert "| 24,000/s, 0.80 of uniform; 1.0 / 2.0 ms | 0.5 of uniform" in line(rows, 1)


def test_what_questions_cost_stands_beside_what_their_client_alone_does() -> None:
    rows = [
        row("beside", case, **faultless(**{"20000/s": paced(mean, 9.0)}))
        for case, mean in ((NOBODY, 2.0), (PLAIN, 2.4), (STEADY, 3.0))
    ]
    assert "1.20 of nobody's mean | - |" in line(rows, 1)
    assert "1.50 of nobody's mean, 1.25 of that beside nginx | mean at most 1.2 of nobody's |" in line(
        rows, 2
    )


def test_faults_of_all_rounds_are_counted() -> None:
    rows = [row("business", "tpcc", **faultless(per_s=1, **{"1000/s": paced(1, 2)}) | {"wrong": 2})] * 2
    assert "| 0, 0, 4 |" in line(rows)


def test_broken_conditions_and_other_rows_are_counted() -> None:
    told = {"condition 1": 1, "condition 4": 2, "torn": 3, "other_rows": 4, "kills": 3, "rows": 1000}
    assert "| 3, 7 of 1,000 | 0, 0 |" in line([row("consistency", "New-Order", **faultless(), **told)])


def test_a_gap_is_over_all_kills() -> None:
    rows = [
        row("gap", "without", **faultless(gaps_ms=gaps, **{"20000/s": paced(1, 2)}))
        for gaps in ([300, 500], [400])
    ]
    assert "3 kills | 400 (300 to 500) ms | 1,000 ms |" in line(rows)


def test_what_a_lower_level_would_save_is_the_median_of_what_was_measured() -> None:
    hot = [
        row("hot", case, **faultless(per_s=rate))
        for case, rate in (("uniform", 20_000), ("one hot account", 19_000))
    ]
    idle = [
        row("idle", "uniform", **faultless(**{"100/s": paced(*took)})) for took in ((1.0, 2.0), (3.0, 6.0))
    ]
    asked = [
        row("queries", case, 1.0, **{"asked, 100/s": paced(*took)})
        for case, took in (("1 strict", (4.0, 5.0)), ("1 stale", (1.0, 7.0)))
    ]
    lines = isolation_table(hot + idle + asked).splitlines()[2:]
    assert "0.95 of that with 100,000 accounts" in lines[1]
    assert "transaction takes 2.0 ms (p99 4.0) and an answer 4.0 ms (p99 5.0)" in lines[3]
    assert "an answer takes 0.25 of a strict one's time: 1.0 ms (p99 7.0)" in lines[4]
