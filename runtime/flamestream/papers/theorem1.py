"""Theorem 1 of the delivery paper, three ways: small systems, the real core without its journal, and a coin.

The theorem: a system that is not deterministic, with an operation that does not commute, is exactly-once if
and only if that operation's result is recoverable before output that depends on it leaves.
"""

from flamestream.papers import coin, small_systems, without_journal
from flamestream.papers.report import Report

SEEDS = 40
"""Jobs that are simulated in each row."""


def run() -> Report:
    """All three."""
    systems, as_predicted = small_systems.table(small_systems.predicts)
    core, core_holds = without_journal.table(range(SEEDS))
    coins, coin_holds = coin.table(range(SEEDS))
    count = len(small_systems.SYSTEMS)
    return Report(
        "Theorem 1 of the delivery paper, three ways",
        "a system that is not deterministic, with an operation that does not commute, is exactly-once if and "
        "only if that operation's result is recoverable before output that depends on it leaves.",
        (systems, core, coins),
        f"(1) s is durable before anything that depends on it is durable or leaves, or nothing is durable "
        f"and all leaves at once: this predicts {as_predicted} of {count} systems. (2) What FlameStream "
        "makes durable is the order of runs; without it the same core breaks definition 6. (3) What a "
        "function throws is not durable, and exactly-once stops at the difference; as a call's answer it is.",
        as_predicted == count and core_holds and coin_holds,
    )
