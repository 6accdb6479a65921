"""The table of programs in event time in the docs, from the lines that figures/time.py wrote: the newest of
each measure."""

from collections.abc import Callable
from typing import Any, Final

Row = dict[str, Any]
Line = tuple[str, str, str]
"""What, what was found, what is asked."""
HEAD: Final = ("what", "found", "asked", "load")


def time_table(rows: list[Row]) -> str:
    """Markdown."""
    newest = {row["measure"]: row for row in rows}
    lines = [
        (*line, f"{newest[name]['noise']['load']:.1f}")
        for name, lines_of in _LINES.items()
        if name in newest
        for line in lines_of(newest[name]["result"])
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in [HEAD, ["---"] * len(HEAD), *lines])


def _cost(what: str, asked: str) -> Callable[[Row], list[Line]]:
    def lines(result: Row) -> list[Line]:
        found = f"{result['us_an_event']} us, {result['events_per_core_second']:,}/s"
        return [(f"{what}: CPU time an event, events a second of a core", found, asked)]

    return lines


def _ttl(result: Row) -> list[Line]:
    of = f"{result['keys']:,} keys, each forgotten an hour after its last touch"
    third, *later = (row for row in result["hours"] if row["hour"] > 2)
    lines = [(f"{of}: CPU time an event", f"{result['us_an_event']} us", "-")]
    for name in ("memory", "snapshot"):
        for kind, ending in (("least", "_least"), ("median", ""), ("most", "_most")):
            if name + ending not in third:
                continue  # a line of before it was told
            before, most = third[name + ending], max((row[name + ending] for row in later), default=0)
            found = f"{before} MB, then up to {most} MB: {most / max(1, before):.2f}"
            lines.append((f"{name}, the {kind} of an hour: of the third, of later ones", found, "1.2"))
    return lines


def _latency(result: Row) -> list[Line]:
    found = f"{result['p50_ms']:.1f} / {result['p99_ms']:.1f} ms" if "p50_ms" in result else result["reason"]
    what = f"a tumbling count between sockets at {result['rate']:,} events/s"
    return [(f"{what}: from its mark to its receipt, p50 / p99", found, "3 / 15 ms")]


def _run(result: Row) -> list[Line]:
    run = f"{result['first_ms']} ms, {result['again_ms']} ms"
    return [
        ("import of `flamestream`", f"{result['import_s']} s", "0.25 s"),
        ("`graph.run` of a test with a window: the first of a process, later ones", run, "5 ms"),
    ]


_LINES: Final[dict[str, Callable[[Row], list[Line]]]] = {
    "count": _cost("a tumbling count, ready-made", "200,000/s"),
    "join": _cost("an interval join of 5 s, with functions of one's own", "60,000/s"),
    "process": _cost("sessions by `process`", "10 us"),
    "ttl": _ttl,
    "latency": _latency,
    "run": _run,
}
