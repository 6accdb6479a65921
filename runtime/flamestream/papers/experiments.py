"""The experiments by name, in the order in which they are listed."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from flamestream.papers import abc_bac, acker, affetti1, bucket, drift, grouping, guarantees, table2, theorem1
from flamestream.papers.report import Report


class Experiment(NamedTuple):
    """An experiment: the line it is listed with, and the function that runs it."""

    line: str
    run: Callable[[], Report]


EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "table2": Experiment(
        "Table II: policies against definitions, each with the history that breaks it", table2.run
    ),
    "abc-bac": Experiment("a state computed again in another order: early policies and ours", abc_bac.run),
    "theorem1": Experiment("Theorem 1: small systems, the core without its journal, a coin", theorem1.run),
    "drift": Experiment("EDBT, Fig. 5 and 6: drifting state, step by step", drift.run),
    "grouping": Experiment("EDBT, Fig. 7: a late item at a grouping, step by step", grouping.run),
    "acker": Experiment("EDBT, Fig. 9: minimal time by XOR, step by step", acker.run),
    "bucket": Experiment("poster, Fig. 7: what of a bucket cannot change, and its snapshot", bucket.run),
    "guarantees": Experiment("the guarantees of a job, and the definitions that each keeps", guarantees.run),
    "affetti1": Experiment("Affetti, Table 1: a bank whose transfers are whole or not at all", affetti1.run),
}
FIGURES: Final[Mapping[str, str]] = {
    "fig5": "drift", "fig6": "drift", "fig7": "grouping", "fig9": "acker", "poster7": "bucket",
}  # fmt: skip
"""The experiments by the figures that they show, of EDBT and of the poster."""
