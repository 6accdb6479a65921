"""Tables (Markdown) and figures (PNG and SVG) of what suite.py wrote.

    python benchmarks report                                # all there is, from .cache/bench/results.jsonl
                                                            into .cache/bench/report
    python benchmarks report --figure fig12 --results mine.jsonl --out docs/figures
    python benchmarks report --docs                         # the tables of the pages, from benchmarks/results

A percentile is taken of each run, and the median of the rounds is shown: a round on a busy machine does not
move it. In brackets: the least and the most of the rounds. The figures are drawn by figures.py in an
environment of its own (requirements/bench/report.in).
"""

import argparse
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from nexmark.table import nexmark_table

from harness import BENCHMARKS
from harness.markdown import markdown_table
from harness.results import (
    FIGURES,
    PERCENTILES,
    Row,
    by_workers,
    cases,
    load,
    over_rounds,
    quantile,
)
from harness.tables.attacks import attacks_table
from harness.tables.autoscaling import autoscaling_table
from harness.tables.balance import balance_table
from harness.tables.bank import bank_table
from harness.tables.calls import calls_table
from harness.tables.first_touch import first_touch_table
from harness.tables.fleet import fleet_table
from harness.tables.guarantees import guarantees_table
from harness.tables.histories import histories_table
from harness.tables.isolation import isolation_table
from harness.tables.productions import productions_table
from harness.tables.rtm import rtm_table
from harness.tables.time import time_table
from harness.tables.tracing import tracing_table
from harness.tables.ui import ui_table
from harness.tables.upgrades import (
    cluster_upgrades_table,
    flink_upgrades_table,
    readme_upgrade_table,
    upgrades_table,
)

CACHE = BENCHMARKS.parent / ".cache" / "bench"
KEPT = BENCHMARKS / "results"
"""Results that stand in the repository, and in the docs."""
DOCS = BENCHMARKS.parent / "docs"


def _steady_rate(row: Row) -> float:
    return float(row["result"]["steady_per_s"])


def _whole_rate(row: Row) -> float:
    return float(row["result"]["records_per_s"])


def latency_table(rows: list[Row]) -> str:
    """By system, guarantee and interval."""
    head = [
        "system",
        "guarantee",
        "interval",
        "documents/s",
        *(f"p{q}, ms" for q in PERCENTILES),
        "lost, doubled, disorder",
        "rounds",
        "load",
    ]
    lines = []
    for case, rounds in sorted(
        cases(rows, "latency").items(), key=lambda entry: (entry[0].interval_ms or 0, entry[0].system)
    ):
        every = "-" if case.interval_ms is None else f"{case.interval_ms} ms"
        whole = [row for row in rounds if row["latencies_ms"]]
        shown = [_spread(over_rounds(whole, quantile(q))) if whole else "-" for q in PERCENTILES]
        rate = ", ".join(f"{each:g}" for each in sorted({row["cell"]["rate"] for row in rounds}))
        lines.append(
            [
                case.system,
                case.guarantee,
                every,
                rate,
                *shown,
                _faults(rounds),
                str(len(rounds)),
                _load(rounds),
            ]
        )
    return markdown_table(head, lines)


def throughput_table(rows: list[Row]) -> str:
    """Change records a second: of the steady part, behind the first quarter of the documents, and of the
    whole run."""
    lines = []
    for case, rounds in cases(rows, "throughput").items():
        every = "-" if case.interval_ms is None else f"{case.interval_ms} ms"
        steady, whole = (_rate(over_rounds(rounds, figure)) for figure in (_steady_rate, _whole_rate))
        took = _spread(over_rounds(rounds, lambda row: float(row["result"].get("seconds", 0.0))))
        lines.append(
            [
                case.system,
                case.guarantee,
                every,
                steady,
                whole,
                took,
                _faults(rounds),
                str(len(rounds)),
                _load(rounds),
            ]
        )
    head = ["system", "guarantee", "interval", "steady, records/s", "whole run, records/s", "lasted, s"]
    return markdown_table([*head, "lost, doubled, disorder", "rounds", "load"], lines)


def failures_table(rows: list[Row]) -> str:
    """A line a kill."""
    lines = [
        [
            row["kind_of_kill"],
            kill["victim"],
            f"{kill['at_s']:.1f} s",
            f"{kill['gap_ms']:.0f} ms",
            f"{kill['recovery_ms']:.0f} ms",
        ]
        for row in rows
        if row["kind"] == "failures"
        for kill in row["kills"]
    ]
    return markdown_table(["kill", "victim", "at", "output gap", "of it recovery"], lines)


def workers_table(rows: list[Row]) -> str:
    """Measured and modelled beside each other."""
    lines = []
    for (count, modelled), rounds in sorted(by_workers(rows).items()):
        shown = [_spread(over_rounds(rounds, quantile(q))) for q in PERCENTILES]
        lines.append(
            [str(count), "modelled" if modelled else "measured", *shown, str(len(rounds)), _load(rounds)]
        )
    costs = [row["costs"] for row in rows if row["kind"] == "workers" and row["modelled"]]
    model = ", ".join(f"{name} {value:.3g}" for name, value in costs[-1].items()) if costs else "none"
    table = markdown_table(["workers", "", *(f"p{q}, ms" for q in PERCENTILES), "rounds", "load"], lines)
    return (
        f"{table}\n\nModel: {model} (us; `benchmarks/figures/scaling.py` says of what). One worker is "
        "fitted, two are its test.\n"
    )


def settings_list(rows: list[Row]) -> str:
    """Versions and settings of every system, with the reasons; a setting that differs from case to case is
    shown with all its values."""
    text = []
    for system in dict.fromkeys(row["system"] for row in rows if "settings" in row):
        its = [row for row in rows if row["system"] == system and "settings" in row]
        versions = ", ".join(f"{name} {version}" for name, version in its[-1]["versions"].items())
        text.append(f"**{system}** ({versions})\n")
        found: dict[tuple[str, str], list[str]] = {}
        for setting in (setting for row in its for setting in row["settings"]):
            values = found.setdefault((setting["name"], setting["reason"]), [])
            if setting["value"] not in values:
                values.append(setting["value"])
        text += [
            f"- `{name}` = {', '.join(f'`{value}`' for value in values)}: {reason}"
            for (name, reason), values in found.items()
        ]
        text.append("")
    return "\n".join(text)


def markdown(rows: list[Row]) -> str:
    """The whole report."""
    days = sorted({row["when"][:10] for row in rows})
    parts = [
        f"# Benchmarks\n\nMachine: {'; '.join(_machines(rows))}. Taken: {', '.join(days)}. Load: 1-minute "
        "average before a run.\n"
    ]
    tables = [
        ("Latency", "latency", latency_table),
        ("Throughput", "throughput", throughput_table),
        ("Kills", "failures", failures_table),
        ("Workers", "workers", workers_table),
    ]
    for title, kind, table in tables:
        if any(row["kind"] == kind for row in rows):
            parts.append(f"## {title}\n\n{table(rows)}\n")
    return "\n".join([*parts, "## Versions and settings\n", settings_list(rows)])


def recovery_table(rows: list[Row]) -> str:
    """How long output stood still around a kill."""
    lines = [
        [
            row["kill"], row["guarantee"], f"{row['gap_ms']} ({row['least_ms']}-{row['most_ms']})",
            str(row["recovery_ms"]), str(row["calm_gap_ms"]), str(row["n"]),
            f"{row['lost']}, {row['doubled']}, {row['disorder']}", f"{row['load']:.1f}",
        ]
        for row in rows
    ]  # fmt: skip
    head = [
        "killed",
        "guarantee",
        "gap, ms",
        "of it recovery",
        "without a kill",
        "kills",
        "lost, doubled, disorder",
        "load",
    ]
    return markdown_table(head, lines)


def zookeeper_table(rows: list[Row]) -> str:
    """What TLS costs on the way to ZooKeeper."""
    words = {
        "session": "a session, opened and ended", "append": "an append to a journal in ZooKeeper",
        "64 KiB": "a node of 64 KiB, written",
    }  # fmt: skip
    shown = [
        [f"{row[way]['p50']:.1f} / {row[way]['p90']:.1f}" for way in ("without", "with")] for row in rows
    ]
    lines = [
        [words[row["what"]], *figures, str(row["n"]), f"{row['load']:.1f}"]
        for row, figures in zip(rows, shown, strict=True)
    ]
    return markdown_table(["p50 / p90, ms", "without TLS", "with TLS", "n", "load"], lines)


TABLES: dict[Path, dict[str, Callable[[list[Row]], str]]] = {
    DOCS / "explanation" / "performance.md": {
        "latency": latency_table, "throughput": throughput_table, "recovery": recovery_table,
        "nexmark": nexmark_table, "rtm": rtm_table, "time": time_table, "calls": calls_table, "bank": bank_table,
        "productions": productions_table, "upgrades": upgrades_table, "autoscaling": autoscaling_table,
        "first_touch": first_touch_table, "balance": balance_table, "ui": ui_table, "costs/tracing": tracing_table,
    },
    DOCS / "explanation" / "performance-of-parts.md": {"zookeeper": zookeeper_table},
    DOCS / "operations" / "performance.md": {
        "readme_upgrade": readme_upgrade_table, "cluster_upgrades": cluster_upgrades_table,
        "flink_upgrades": flink_upgrades_table, "fleet": fleet_table,
    },
    DOCS / "explanation" / "threats.md": {"attacks": attacks_table},
    DOCS / "how-to" / "transactions.md": {"isolation": isolation_table},
    DOCS / "reference" / "histories.md": {"histories": histories_table},
    DOCS / "reference" / "manifest.md": {"guarantees": guarantees_table},
}  # fmt: skip
"""Of each page, by the mark that stands before each; from the results of that name."""
RESULTS = {"isolation": "bank"}
"""The name of the results of a table, where it is another."""


def with_tables(page: str, tables: dict[str, Callable[[list[Row]], str]]) -> str:
    """The page with its tables made again. A table without results has no lines."""
    for name, table in tables.items():
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert mark and end, f"the page has no place for the table of {name}"
        file = KEPT / f"{RESULTS.get(name, name)}.jsonl"
        rows = load(file) if file.exists() else []
        page = before + mark + f"{_where(rows)}\n\n{table(rows)}\n" + end + after
    return page


def _where(rows: list[Row]) -> str:
    if not rows:
        return "Not measured yet."
    days = ", ".join(sorted({row["when"][:10] for row in rows}))
    rounds = (
        ""
        if rows[0].keys() & {"attack", "with", "measure", "doors"}
        else " Median of the rounds, least and most in brackets."
    )
    return f"{'; '.join(_machines(rows))}; {days}.{rounds}"


def _machines(rows: list[Row]) -> list[str]:
    its = (row["machine"] for row in rows)
    return sorted(
        {f"{m['processor']}, {m['cores']} cores, {m['memory_gb']} GB, Linux {m['kernel']}" for m in its}
    )


def _rate(values: tuple[float, float, float]) -> str:
    middle, least, most = values
    if not middle:
        return "in one piece"
    return f"{middle:,.0f}" if least == most else f"{middle:,.0f} ({least:,.0f}-{most:,.0f})"


def _spread(values: tuple[float, float, float]) -> str:
    middle, least, most = values
    return f"{middle:.1f}" if least == most else f"{middle:.1f} ({least:.1f}-{most:.1f})"


def _faults(rounds: list[Row]) -> str:
    counts = ", ".join(
        str(sum(row["result"][name] for row in rounds)) for name in ("lost", "doubled", "disorder")
    )
    return f"{counts} (unfinished)" if any(row["result"].get("unfinished") for row in rounds) else counts


def _load(rounds: list[Row]) -> str:
    loads = [row["noise"]["load"] for row in rounds]
    return f"{min(loads):.1f}" if len(set(loads)) == 1 else f"{min(loads):.1f}-{max(loads):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=CACHE / "results.jsonl")
    parser.add_argument("--out", type=Path, default=CACHE / "report")
    parser.add_argument("--figure", choices=(*FIGURES, "kills"), default="", help="only this one")
    parser.add_argument("--docs", action="store_true", help="write the tables of the docs")
    options = parser.parse_args()
    if options.docs:
        for page, tables in TABLES.items():
            page.write_text(with_tables(page.read_text(), tables))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.figure:
        (options.out / "report.md").write_text(markdown(load(options.results)))
        print(options.out / "report.md")
    from systems.environments import make

    drawing = [
        make("report"),
        "-m",
        "harness.drawing",
        str(options.results),
        str(options.out),
        options.figure,
    ]
    subprocess.run(drawing, check=True, env={**os.environ, "PYTHONPATH": str(BENCHMARKS)})


if __name__ == "__main__":
    main()
