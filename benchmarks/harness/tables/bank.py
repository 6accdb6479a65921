"""The tables of transactions in the docs, from the lines that bank/figure.py wrote: the median of the rounds of each
case, with the least and the most."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from harness.markdown import markdown_table
from harness.results import median_and_ends

Row = dict[str, Any]
Values = Sequence[float]
Cases = dict[str, list[Row]]
"""The rounds of each case of a part."""
Line = tuple[str, str, str]
"""What, what was found, what is asked."""
FAULTS: Final = "lost, doubled, wrong"
PEERS: Final = ["transfers", "a second", "of ours", "retries", FAULTS, "load"]
HEAD: Final = ["what", "found", "asked", FAULTS, "load"]
FULL: Final = "per_s"


def bank_table(rows: list[Row]) -> str:
    """Markdown: what each system carries, then everything else."""
    by_part = parts_of(rows)
    lines = [
        [*line, _faults(by_part[part]), _load(by_part[part])]
        for part, lines_of in _LINES.items()
        if part in by_part
        for line in lines_of(by_part[part])
    ]
    table = markdown_table(HEAD, lines)
    return f"{_peers(by_part['rate'])}\n\n{table}" if "rate" in by_part else table


def parts_of(rows: list[Row]) -> dict[str, Cases]:
    """The cases of each part."""
    by_part = dict[str, Cases]()
    for row in rows:
        by_part.setdefault(row["measure"], {}).setdefault(row["case"], []).append(row)
    return by_part


def _peers(cases: Cases) -> str:
    ours = values_of(cases, "flamestream, one worker", FULL)
    lines = []
    for name, rounds in cases.items():
        if reason := rounds[-1]["result"].get("reason"):
            lines.append([name, reason, "-", "-", "-", _load({name: rounds})])
            continue
        share = statistics.median(values_of(cases, name, FULL)) / statistics.median(ours) if ours else None
        retries = sum(row["result"].get("retries", 0) for row in rounds)
        done = sum(row["result"]["n"] for row in rounds)
        lines.append([
            name, spread(values_of(cases, name, FULL)), "-" if share is None else f"{share:.2f}",
            f"{retries:,} of {done:,}" if any("retries" in row["result"] for row in rounds) else "-",
            _faults({name: rounds}), _load({name: rounds}),
        ])  # fmt: skip
    return markdown_table(PEERS, lines)


def values_of(cases: Cases, case: str, *path: str) -> list[float]:
    """A figure of each round that has it."""
    found = []
    for row in cases.get(case, ()):
        value: Any = row["result"]
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            found.append(float(value))
    return found


def spread(values: Values, form: str = ",.0f") -> str:
    """Median, least and most.

    >>> spread([2000, 1000, 4000]), spread([1.25], ".1f")
    ('2,000 (1,000 to 4,000)', '1.2')
    """
    if not values:
        return "-"
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else median_and_ends(values, form)


def _ms(cases: Cases, case: str, phase: str, *names: str) -> str:
    """Latencies of a phase, or that it was not carried."""
    reasons = [row["result"].get(phase, {}).get("reason") for row in cases.get(case, ())]
    if any(reasons):
        return str(next(filter(None, reasons)))
    shown = " / ".join(spread(values_of(cases, case, phase, f"{name}_ms"), ".1f") for name in names)
    carried = all(row["result"].get(phase, {}).get("carried", True) for row in cases.get(case, ()))
    return f"{shown} ms{'' if carried else ', behind: it carries less'}"


def _latency(cases: Cases) -> list[Line]:
    asked = {("flamestream", "6235/s"): "8.2 ms mean", ("flamestream", "21448/s"): "3.7 ms mean"}
    return [
        (
            f"{case}: mean / p99 at {phase}",
            _ms(cases, case, phase, "mean", "p99"),
            asked.get((case, phase), "-"),
        )
        for case in cases
        for phase in ("6235/s", "21448/s")
        if phase in cases[case][-1]["result"]
    ]


def _idle(cases: Cases) -> list[Line]:
    its, beside = (values_of(cases, name, "100/s", "p50_ms") for name in ("uniform", "reduce"))
    lines = [
        (f"{what}: p50 / p99 at 100/s", _ms(cases, case, "100/s", "p50", "p99"), asked)
        for case, what, asked in (
            ("uniform", "transfers", "2 / 8 ms"),
            ("reduce", "a reduce of the same lines", "-"),
        )
    ]
    if its and beside:
        more = statistics.median(its) - statistics.median(beside)
        lines.append(("a transfer's p50 over a reduce's", f"{more:+.2f} ms", "+0.4 ms"))
    return lines


UNSYNCED = "1s, no fsync"


def _epochs(cases: Cases) -> list[Line]:
    lines = [
        (
            f"p50 / p99 at 5,000/s, {'without a guarantee' if case == 'none' else f'an epoch each {case}'}",
            _ms(cases, case, "5000/s", "p50", "p99"), "-" if case == "none" else "flat",
        )
        for case in cases
    ]  # fmt: skip
    none = values_of(cases, "none", "5000/s", "p50_ms")
    for case, how in (("1s", ""), (UNSYNCED, " but for the disk's syncs")):
        its = values_of(cases, case, "5000/s", "p50_ms")
        if its and none:
            more = statistics.median(its) - statistics.median(none)
            lines.append((f"exactly once over no guarantee{how}, p50", f"{more:+.2f} ms", "0.5 ms"))
    return lines


FLOOR = "16 of Redis, MGET of one key"
NOBODY = "nobody"
STEADY = "5,000 strict questions a second"
PLAIN = "5,000 questions a second that nginx answers"
NOBODY_OF_MANY = "nobody, of a million accounts"
SCANNING = "a scan of a million accounts, page by page"
BESIDE = {
    PLAIN: (NOBODY, "mean", "-"),
    STEADY: (NOBODY, "mean", "mean at most 1.2 of nobody's"),
    SCANNING: (NOBODY_OF_MANY, "p99", "p99 at most 3 of nobody's"),
}
"""What the transfers beside some are compared with, by which figure, and what is asked."""


def _queries(cases: Cases) -> list[Line]:
    asked = {
        "1 strict, 100/s": "2 / 6 ms",
        "1 strict, 20000/s": "4 / 12 ms",
        "16 strict, 100/s": "10,000 a second",
    }
    lines = list[Line]()
    for case in cases:
        for phase in ("100/s", "20000/s"):
            if not (rates := values_of(cases, case, f"asked, {phase}", "per_s")):
                continue
            took = (
                spread(values_of(cases, case, f"asked, {phase}", name), ".1f")
                for name in ("p50_ms", "p99_ms")
            )
            beside = "" if case == FLOOR else f" beside {phase}"
            what = f"{case} clients{beside}: an answer's p50 / p99; answers a second"
            lines.append(
                (what, f"{' / '.join(took)} ms; {spread(rates)}", asked.get(f"{case}, {phase}", "-"))
            )
    return lines + [
        (f"transfers at 20,000/s, {case} ask: mean / p99", _ms(cases, case, "20000/s", "mean", "p99"), "-")
        for case in cases
        if case != FLOOR
    ]


def _beside(cases: Cases) -> list[Line]:
    lines = list[Line]()
    for case in cases:
        base, name, asked = BESIDE.get(case, ("", "", "-"))
        found = _ms(cases, case, "20000/s", "mean", "p99")
        its, without = (values_of(cases, each, "20000/s", f"{name}_ms") for each in (case, base))
        if its and without:
            found += f", {statistics.median(its) / statistics.median(without):.2f} of nobody's {name}"
        floor = values_of(cases, PLAIN, "20000/s", "mean_ms")
        if case == STEADY and its and floor:
            found += f", {statistics.median(its) / statistics.median(floor):.2f} of that beside nginx"
        lines.append((f"transfers at 20,000/s beside {case}: mean / p99", found, asked))
        if rates := values_of(cases, case, "asked, 20000/s", "per_s"):
            took = (
                spread(values_of(cases, case, "asked, 20000/s", f"{each}_ms"), ".1f")
                for each in ("p50", "p99")
            )
            lines.append(
                (
                    f"{case}: an answer's p50 / p99; answers a second",
                    f"{' / '.join(took)} ms; {spread(rates)}",
                    "-",
                )
            )
    return lines


def _rates(what: str, phase: str, asked: str, base: str = "") -> Callable[[Cases], list[Line]]:
    """Outcomes a second of each case, beside those of a first one."""

    def lines(cases: Cases) -> list[Line]:
        found, first = list[Line](), values_of(cases, base, FULL)
        for case in cases:
            its, beside = values_of(cases, case, FULL), ""
            if case != base and first:
                beside = f", {statistics.median(its) / statistics.median(first):.2f} of {base}"
            shown = f"{spread(its)}/s{beside}; {_ms(cases, case, phase, 'p50', 'p99')}"
            found.append(
                (f"{what.format(case)}: at most; p50 / p99 at {phase}", shown, "-" if case == base else asked)
            )
        return found

    return lines


def _consistency(cases: Cases) -> list[Line]:
    lines = []
    for case, rounds in cases.items():
        results = [row["result"] for row in rounds]
        broken = sum(
            value for each in results for name, value in each.items() if name.startswith("condition")
        )
        others = sum(each["torn"] + each["other_rows"] for each in results)
        kills, rows = (sum(each[name] for each in results) for name in ("kills", "rows"))
        what = f"{case} through {kills} kills: TPC-C's conditions broken, rows that are not a serial run's"
        lines.append((what, f"{broken}, {others} of {rows:,}", "0, 0"))
    return lines


def _snapshot(cases: Cases) -> list[Line]:
    return [
        (
            "a changed row in a snapshot, an int: CPU time",
            f"{spread(values_of(cases, case, 'us'), '.1f')} us",
            "4 us",
        )
        for case in cases
    ]


def _parts(cases: Cases) -> list[Line]:
    return [
        (
            f"a worker without sockets, {case}: CPU time of a transfer, transfers a second of a core",
            f"{spread(values_of(cases, case, 'us'), '.1f')} us, {spread(values_of(cases, case, FULL))}", "-",
        )
        for case in cases
    ]  # fmt: skip


def _contention(cases: Cases) -> list[Line]:
    names = ("by measure", "guessing", "waiting")

    def of(case: str, name: str) -> str:
        decisions, spent = (values_of(cases, case, name, what) for what in ("runs", "us"))
        return f"{spread(decisions, '.2f')}, {spread(spent, '.1f')} us"

    return [
        (
            f"two sources, {case.replace(' behind', ' passes of 64 behind')}: decisions and CPU time of a transfer, "
            f"{', '.join(names)}",
            "; ".join(of(case, name) for name in names), "2 times the best",
        )
        for case in cases
    ]  # fmt: skip


def _gap(cases: Cases) -> list[Line]:
    asked = {"with a standby": "300 ms", "without": "1,000 ms"}
    lines = []
    for case, rounds in cases.items():
        gaps = [gap for row in rounds for gap in row["result"]["gaps_ms"]]
        behind = (
            ""
            if all(row["result"]["20000/s"].get("carried", True) for row in rounds)
            else ", behind at the end"
        )
        what = f"a worker killed at 20,000/s, {case}: no outcome for so long, {len(gaps)} kills"
        lines.append((what, f"{spread(gaps)} ms{behind}", asked.get(case, "-")))
    return lines


_LINES: Final[dict[str, Callable[[Cases], list[Line]]]] = {
    "latency": _latency,
    "idle": _idle,
    "epochs": _epochs,
    "hot": _rates("two workers, {}", "5000/s", "0.5 of uniform, 20,000/s, 15 ms", "uniform"),
    "contention": _contention,
    "keys": _rates("a million accounts, {}", "5000/s", "within 2 times", "zipf 0.0"),
    "aborts": _rates("a million accounts, {}", "5000/s", "within 1.2 times", "aborts 0%"),
    "orders": _rates("{} of 2 to 8 keys found by reading, a tenth refused", "5000/s", "15,000/s, 15 ms"),
    "business": _rates("New-Order and Payment in turn", "1000/s", "-"),
    "consistency": _consistency,
    "snapshot": _snapshot,
    "parts": _parts,
    "gap": _gap,
    "queries": _queries,
    "beside": _beside,
}


def _faults(cases: Cases) -> str:
    """Lost, doubled and wrong outcomes of all runs that say them; of a peer's that its sums are right."""
    results = [row["result"] for rounds in cases.values() for row in rounds]
    told = [result for result in results if "lost" in result]
    if told:
        return ", ".join(str(sum(result[name] for result in told)) for name in ("lost", "doubled", "wrong"))
    return "its sums are right" if all("checked" in result for result in results) else "-"


def _load(cases: Cases) -> str:
    loads = [row["noise"]["load"] for rounds in cases.values() for row in rounds]
    least, most = f"{min(loads):.1f}", f"{max(loads):.1f}"
    return least if least == most else f"{least}-{most}"
