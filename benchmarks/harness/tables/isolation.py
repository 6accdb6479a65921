"""The table of isolation in the docs: what a lower level would save, by the lines that bank/figure.py wrote.

Does not: show how far rounds are apart (bank.py does).
"""

import statistics
from typing import Final

from harness.markdown import markdown_table
from harness.tables.bank import FULL, Cases, Row, parts_of, values_of

HEAD: Final = ["level, and what it would mean", "here", "what it saves"]
MEASURED: Final = "([measured](../explanation/performance.md#transactions), as what follows)"


def isolation_table(rows: list[Row]) -> str:
    """Markdown: a line a level, with medians."""
    its = parts_of(rows)
    return markdown_table(HEAD, _lines(its["hot"], its["idle"], its["queries"]) if rows else [])


def _lines(hot: Cases, idle: Cases, queries: Cases) -> list[list[str]]:
    outcome = _took(idle, "uniform", "100/s")
    strict, stale = (_took(queries, f"1 {how}", "asked, 100/s") for how in ("strict", "stale"))
    one = _median(hot, "one hot account", FULL) / _median(hot, "uniform", FULL)
    share = _median(queries, "1 stale", "asked, 100/s", "p50_ms") / _median(
        queries, "1 strict", "asked, 100/s", "p50_ms"
    )
    return [
        [
            "PL 0 to 2: a transaction reads what may be undone, or what others change meanwhile",
            "not offered: such a read depends on timing, so a replay would give other bytes",
            "next to nothing: no transaction waits for another one, only its outcome waits, for minimal time, as all "
            "output does",
        ],
        [
            "PL 3: serializable, in any order",
            "not offered apart from the next",
            "nothing: the order is there before anything runs. With one account in every transfer the rate is "
            f"{one:.2f} of that with 100,000 accounts {MEASURED}",
        ],
        [
            "PL 4: serializable in the order of input, and strict",
            "every transaction, always: what a producer was told is accepted comes before whatever it sends then",
            "",
        ],
        [
            "a query that is strict",
            "default",
            f"beside it, idle, an outcome of a transaction takes {outcome} and an answer {strict}: so a transaction "
            "that only reads is for answers that have to be in a sink, exactly once",
        ],
        [
            "a query of one moment, a little behind: `stale`",
            "offered, with `at_least`",
            f"an answer takes {share:.2f} of a strict one's time: {stale}, and no entry in a journal. Many clients at "
            "once gain nothing: strict questions that come together are one query, these are asked one by one",
        ],
        [
            "a query of the last epoch: `committed`",
            "offered",
            "it works while the job is down, and asks no worker",
        ],
    ]


def _took(cases: Cases, case: str, phase: str) -> str:
    p50, p99 = (_median(cases, case, phase, name) for name in ("p50_ms", "p99_ms"))
    return f"{p50:.1f} ms (p99 {p99:.1f})"


def _median(cases: Cases, case: str, *path: str) -> float:
    return statistics.median(values_of(cases, case, *path))
