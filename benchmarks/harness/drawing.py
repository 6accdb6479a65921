"""The figures of report.py, drawn by matplotlib in an environment of its own: python figures.py RESULTS OUT
[FIGURE]

fig10, fig11, fig12   p50, p75, p95, p99 by guarantee, ours beside Flink, at 50, 500 and 1000 ms between
                      checkpoints
fig9                  latency over time through kills of a worker, with the gap of each
kills                 the same of two systems, with the same kills
fig13                 the distribution of latencies, all systems: without a guarantee, and with the strongest
                      that each has
throughput            change records a second, all systems
workers               median and tail over 1, 2, 4, 8 workers, measured and modelled
"""

import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from harness.results import (
    BESIDE,
    FIGURES,
    PAPER_INTERVALS,
    PERCENTILES,
    Case,
    Row,
    by_workers,
    cases,
    load,
    over_rounds,
    pace,
    quantile,
)

COLOURS = [
    "#1f5fa8",
    "#c8501e",
    "#4d4d4d",
    "#2e8b57",
    "#8a5ca8",
    "#b8860b",
    "#5aa0c8",
    "#a83a5a",
    "#7fbf4d",
    "#20b2aa",
    "#d87aa8",
    "#8b5a2b",
]
SHADES = {"none": 0.3, "at-least-once": 0.5, "exactly-once": 1.0, "exactly-once-2pc": 0.75}
STRENGTH = ["none", "at-least-once", "exactly-once"]
DASHES = {"none": ":", "at-least-once": "--", "exactly-once": "-", "exactly-once-2pc": "-."}


def by_interval(interval: int) -> "Any":
    """The figure of one checkpoint interval."""

    def draw(rows: list[Row]) -> "plt.Figure | None":
        found = {
            case: rounds
            for case, rounds in cases(rows, "latency").items()
            if case.system in BESIDE and all(map(_whole, rounds))
        }
        if not any(case.interval_ms == interval for case in found):
            return None
        shown = sorted((case for case in found if case.interval_ms in (None, interval)), key=_order)
        figure, axes = plt.subplots(figsize=(9, 5))
        width = 0.9 / len(shown)
        for i, case in enumerate(shown):
            spread = [over_rounds(found[case], quantile(q)) for q in PERCENTILES]
            middle = [each[0] for each in spread]
            bounds = [[each[0] - each[1] for each in spread], [each[2] - each[0] for each in spread]]
            at = [group + (i - (len(shown) - 1) / 2) * width for group in range(len(PERCENTILES))]
            axes.bar(
                at,
                middle,
                width * 0.92,
                color=_colour(case, rows),
                alpha=SHADES[case.guarantee],
                label=f"{case.system}, {case.guarantee}",
            )
            axes.errorbar(at, middle, bounds, fmt="none", ecolor="black", elinewidth=0.7)
            for x, y in zip(at, middle, strict=True):
                text = f"{y:.0f}" if y >= 100 else f"{y:.1f}"
                axes.annotate(
                    text, (x, y), (0, 5), textcoords="offset points", ha="center", fontsize=7, rotation=90
                )
        axes.set(
            yscale="log",
            ylabel="latency, ms (log)",
            xticks=range(len(PERCENTILES)),
            xticklabels=[f"p{q}" for q in PERCENTILES],
        )
        axes.set_title(f"Latency by guarantee, {interval} ms between checkpoints")
        axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.08))
        axes.margins(x=0.02, y=0.2)
        return figure

    return draw


def through_failures(rows: list[Row]) -> "plt.Figure | None":
    """The last such run."""
    found = [row for row in rows if row["kind"] == "failures"]
    if not found:
        return None
    row = found[-1]
    figure, axes = plt.subplots(figsize=(8, 4.2))
    axes.scatter(
        [at for at, _ in row["points"]],
        [latency for _, latency in row["points"]],
        s=3,
        color=COLOURS[0],
        linewidths=0,
    )
    axes.set_xlim(0, max(kill["at_s"] for kill in row["kills"]) + 5)
    for i, kill in enumerate(row["kills"]):
        axes.axvline(kill["at_s"], color=COLOURS[1], linewidth=1)
        text = f" kill: {kill['gap_ms']:.0f} ms gap"
        axes.annotate(
            text,
            (kill["at_s"], 0.98 - 0.05 * (i % 3)),
            xycoords=("data", "axes fraction"),
            fontsize=8,
            color=COLOURS[1],
            va="top",
        )
    axes.set(yscale="log", xlabel="when the document was sent, s", ylabel="latency, ms (log)")
    cell = row["cell"]
    what = (
        f"{cell['guarantee']}, epochs every {cell['interval']}, {cell['standby']} standby, "
        f"{cell['rate']:g} documents/s"
    )
    axes.set_title(f"{row['system']} through kills of a worker ({what})", fontsize=10)
    axes.margins(y=0.2)
    return figure


def beside_each_other(rows: list[Row]) -> "plt.Figure | None":
    """The last run of each system through kills at the same times."""
    newest = {row["system"]: row for row in rows if row["kind"] == "kills"}
    if not newest:
        return None
    figure, axes = plt.subplots(figsize=(8, 4.2))
    for row, colour in zip(newest.values(), COLOURS, strict=False):
        gaps = ", ".join(f"{kill['gap_ms']:,}" for kill in row["kills"])
        label = f"{row['system']}: no result for {gaps} ms; {row['lost']} lost, {row['doubled']} doubled"
        axes.scatter(*zip(*row["points"], strict=True), s=2, color=colour, linewidths=0, label=label)
        for kill in row["kills"]:
            axes.axvline(kill["at_s"], color="#4d4d4d", linewidth=0.6, linestyle=":")
    row = next(iter(newest.values()))
    axes.set(yscale="log", xlabel="when the record was written, s", ylabel="latency, ms (log)")
    axes.set_title(
        f"Three kills, {row['guarantee']}, checkpoints every second, {row['rate']:g} records/s", fontsize=10
    )
    axes.legend(fontsize=8, frameon=False, markerscale=4, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return figure


def distribution(rows: list[Row]) -> "plt.Figure | None":
    """Shares of documents that are faster; all rounds together; with checkpoints, at the longest interval.

    A system is shown without a guarantee, and with the strongest it has: not held back in two phases, which
    is the other systems' way."""
    found = cases(rows, "latency")
    longest = max((case.interval_ms for case in found if case.interval_ms is not None), default=None)
    taken = [case for case in found if case.interval_ms in (None, longest) and case.guarantee in STRENGTH]
    strongest = {case.system: case for case in sorted(taken, key=lambda case: STRENGTH.index(case.guarantee))}
    shown = sorted(
        (case for case in taken if case.interval_ms is None or case == strongest[case.system]), key=_order
    )
    if not shown:
        return None
    figure, axes = plt.subplots(figsize=(10, 5))
    for case in shown:
        latencies = sorted(latency for row in found[case] for latency in row["latencies_ms"])
        if not latencies:
            continue
        shares = [(i + 1) / len(latencies) for i in range(len(latencies))]
        axes.plot(
            latencies,
            shares,
            DASHES[case.guarantee],
            color=_colour(case, rows),
            linewidth=1.4,
            label=f"{case.system}, {case.guarantee}",
        )
    axes.set(xscale="log", xlabel="latency, ms (log)", ylabel="share of documents", ylim=(0, 1.01))
    axes.set_title("Distribution of latencies" + (f", {longest} ms between checkpoints" if longest else ""))
    axes.legend(fontsize=7.5, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    axes.grid(alpha=0.25)
    return figure


def throughput(rows: list[Row]) -> "plt.Figure | None":
    """A bar a case."""
    found = cases(rows, "throughput")
    if not found:
        return None
    shown = sorted(found, key=_order, reverse=True)
    spread = [over_rounds(found[case], pace) for case in shown]
    figure, axes = plt.subplots(figsize=(8, 0.5 + 0.36 * len(shown)))
    for at, (case, (middle, least, most)) in enumerate(zip(shown, spread, strict=True)):
        axes.barh(
            at,
            middle,
            0.7,
            color=_colour(case, rows),
            alpha=SHADES[case.guarantee],
            xerr=[[middle - least], [most - middle]],
        )
        axes.annotate(f" {middle / 1000:,.0f}k", (most, at), va="center", fontsize=8)
    axes.set_title("Throughput, socket to socket (Quix: topic to topic)", fontsize=10)
    axes.set(
        yticks=range(len(shown)), yticklabels=[str(case) for case in shown], xlabel="change records a second"
    )
    axes.margins(x=0.12)
    axes.tick_params(labelsize=8)
    return figure


def over_workers(rows: list[Row]) -> "plt.Figure | None":
    """EDBT Fig. 11 and 12: a panel each."""
    found = by_workers(rows)
    if not found:
        return None
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.4))
    for axes, title, shown in zip(panels, ("Median", "Tail"), ((50,), (95, 99)), strict=True):
        for modelled in (False, True):
            counts = sorted(count for count, how in found if how is modelled)
            for i, q in enumerate(shown if counts else ()):
                spread = [over_rounds(found[count, modelled], quantile(q)) for count in counts]
                middle = [each[0] for each in spread]
                bounds = [[each[0] - each[1] for each in spread], [each[2] - each[0] for each in spread]]
                form = {"fmt": "s--", "mfc": "white"} if modelled else {"fmt": "o-"}
                label = f"p{q}, {'modelled' if modelled else 'measured'}"
                axes.errorbar(
                    counts, middle, bounds, color=COLOURS[i + len(shown) - 1], capsize=3, label=label, **form
                )
        ticks = sorted({count for count, _ in found})
        axes.set_xscale("log", base=2)
        axes.set(xlabel="workers", ylabel="latency, ms", xticks=ticks, xticklabels=ticks, title=title)
        axes.set_ylim(0, axes.get_ylim()[1] * 1.25)
        axes.legend(fontsize=8, frameon=False)
        axes.margins(x=0.1)
    figure.text(0.01, 0.03, _measured_or_modelled(found), fontsize=7)
    return figure


def _measured_or_modelled(found: dict[tuple[int, bool], list[Row]]) -> str:
    measured = ", ".join(str(count) for count, modelled in sorted(found) if not modelled)
    only = " and ".join(
        str(count) for count, modelled in sorted(found) if modelled and (count, False) not in found
    )
    row = next(iter(found.values()))[0]
    cores = row["machine"]["cores"]
    return (
        f"{row['cell']['guarantee']}, {row['cell']['rate']:g} documents/s. Workers {measured or 'none'} "
        f"measured on {cores} cores, which"
        f" the producer and the consumer share. {only or 'None'} modelled only: the simulator's\nvirtual "
        "time with costs measured an item,"
        " fitted at one worker; a core for each worker, no noise of a machine (so tails are too good), no "
        "network between machines."
    )


DRAW = {
    "fig9": through_failures,
    "kills": beside_each_other,
    **{name: by_interval(interval) for name, interval in PAPER_INTERVALS.items()},
    "fig13": distribution,
    "throughput": throughput,
    "workers": over_workers,
}


def _whole(row: Row) -> bool:
    return bool(row["latencies_ms"])


def caption(rows: list[Row]) -> str:
    """Where and how busy."""
    machine, loads = rows[-1]["machine"], [row["noise"]["load"] for row in rows]
    where = f"{machine['processor']}, {machine['cores']} cores, {rows[-1]['when'][:10]}"
    return f"{where}; load before runs: median {statistics.median(loads):.1f}, most {max(loads):.1f}"


def _order(case: Case) -> tuple[int, str, int]:
    place = BESIDE.index(case.system) if case.system in BESIDE else len(BESIDE)
    return place, case.system, list(SHADES).index(case.guarantee)


def _colour(case: Case, rows: list[Row]) -> str:
    others = sorted({row["system"] for row in rows} - set(BESIDE))
    return COLOURS[[*BESIDE, *others].index(case.system) % len(COLOURS)]


def main() -> None:
    results, out, wanted = (
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        sys.argv[3:] if sys.argv[3:] != [""] else FIGURES,
    )
    mpl.use("Agg")
    mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "flamestream"})
    rows = load(results)
    for name in wanted:
        figure = DRAW[name](rows)
        if figure is None:
            print(f"{name}: nothing measured for it yet", file=sys.stderr)
            continue
        figure.text(0.01, 0.005, caption(rows), fontsize=6.5, color="#555555")
        figure.tight_layout(rect=(0, 0.09 if name == "workers" else 0.03, 1, 1))
        for form in ("png", "svg"):
            figure.savefig(out / f"{name}.{form}", dpi=150)
        print(out / f"{name}.png")


if __name__ == "__main__":
    main()
