"""Table II of the delivery paper: a window of two that is fed by asynchronous channels, through a crash.

The paper shows one execution. Here it is beside the core's, and then there are all executions of each policy.
"""

from collections.abc import Sequence

from flamestream.papers.execution import beside
from flamestream.papers.explore import Exploration, explore
from flamestream.papers.policies import EARLY, OURS, PAPER
from flamestream.papers.report import Report, Table
from flamestream.papers.systems import Policy, last_two

INPUTS = "abc"


def run() -> Report:
    """The paper's execution, and every policy against every definition."""
    return report((*EARLY, PAPER), OURS)


def report(others: Sequence[Policy], ours: Sequence[Policy]) -> Report:
    """Explore them; it is claimed that definition 6 holds, read strictly, for each of `ours` and for no
    other."""
    execution, same = beside()
    found = [(policy, explore(policy, last_two, INPUTS)) for policy in (*others, *ours)]
    histories = sum(each.histories for _, each in found)
    verdicts = Table(
        f"Which definitions hold, as printed and read strictly: {histories:,} histories of {INPUTS}",
        ("policy", "6", "6 strict", "7", "7 strict", "8", "8 strict"),
        tuple((policy.name, *_verdicts(each)) for policy, each in found),
    )
    return Report(
        "Table II of the delivery paper: a window of two through a crash",
        "strings from asynchronous channels, joined by a window of two. Had recovery come to [b,d] and not "
        "again to [d,b], de would leave behind db: each input was applied once, and the output contradicts "
        "itself.",
        (execution, verdicts, breaking(found)),
        "A policy that releases at once and may apply again in another order breaks definition 6. One whose "
        "order is fixed does not. As printed, definition 6 does not see lost output: the paper's own "
        "protocol passes it and loses a result.",
        same
        and [each.holds(6, strict=True) for _, each in found] == [False] * len(others) + [True] * len(ours),
    )


def _verdicts(found: Exploration) -> list[str]:
    """A cell for each reading."""
    return [
        "holds" if found.holds(definition, strict=strict) else "-"
        for definition in (6, 7, 8)
        for strict in (False, True)
    ]


def breaking(found: Sequence[tuple[Policy, Exploration]]) -> Table:
    """The shortest history of each policy that breaks definition 6: as printed, if one does."""
    rows = [
        (policy.name, "6 strict" if reading.strict else "6", " ".join(history))
        for policy, each in found
        for reading, history in sorted(each.broken.items())[:1]
        if reading.definition == 6
    ]
    return Table(
        "The shortest history that breaks it (+a enters, [a] is applied, ->a leaves)",
        ("policy", "breaks", "history"),
        tuple(rows),
    )
