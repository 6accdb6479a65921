"""Latency over time through kills of a worker (Fig. 9 of the delivery paper): suite.py runs it, report.py
draws it."""

from typing import Any

from harness.drive import where
from systems import SYSTEMS

from figures.recovery import KINDS, gap_of, watch


def failing(kills: int, rate: float, standby: int, seed: int) -> dict[str, Any]:
    """A line of results: a point a document, times in seconds since the first one."""
    kind = "standby" if standby else "worker"
    outcome, struck = watch(kind, kills, rate, seed)
    start = outcome.points[0][0]
    return {
        "system": SYSTEMS["flamestream"].name,
        "kind_of_kill": kind,
        "cell": {
            "guarantee": KINDS[kind].guarantee,
            "interval": KINDS[kind].interval,
            "rate": rate,
            "standby": standby,
            "seed": seed,
        },
        "kills": [
            {
                "at_s": round(kill.at - start, 3),
                "victim": kill.victim,
                "gap_ms": round(gap_of(outcome, kill), 1),
                "recovery_ms": round(kill.recovery_ms, 1),
            }
            for kill in struck
        ],
        "result": outcome.row(),
        "points": [[round(when - start, 4), round(latency, 2)] for when, latency in outcome.points],
        "versions": SYSTEMS["flamestream"].versions(),
        **where(),
    }
