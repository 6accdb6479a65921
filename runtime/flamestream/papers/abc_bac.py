"""abc and bac: concatenation, the operation that the delivery paper explains inconsistency with."""

from flamestream.papers.explore import explore
from flamestream.papers.policies import EARLY, OURS
from flamestream.papers.report import Report, Table
from flamestream.papers.systems import Policy, appended
from flamestream.papers.table2 import breaking

INPUTS = "abc"


def run() -> Report:
    """Policies that release early, and ours."""
    return report(EARLY, OURS)


def report(early: tuple[Policy, ...], ours: tuple[Policy, ...]) -> Report:
    """Explore them; it is claimed that each of `ours` holds, and none of `early`."""
    found = [(policy, explore(policy, appended, INPUTS)) for policy in (*early, *ours)]
    rows = [
        (
            policy.name,
            f"{each.situations:,}",
            f"{each.histories:,}",
            "holds" if each.holds(6, strict=True) else "-",
        )
        for policy, each in found
    ]
    broken = [not each.holds(6, strict=False) for _, each in found[: len(early)]]
    held = [each.holds(6, strict=True) for _, each in found[len(early) :]]
    histories = sum(each.histories for _, each in found[len(early) :])
    return Report(
        "abc and bac: the order of a state that was computed again",
        "a concatenation has released ca and computes again after a crash; nothing makes it come to ca and "
        "not to ac. Then acb follows ca, which no run without a failure gives.",
        (
            Table(
                "Every history, with one crash at most, at any step",
                ("policy", "situations", "histories", "definition 6"),
                tuple(rows),
            ),
            breaking(found),
        ),
        f"{sum(broken)} of {len(broken)} policies that release early break definition 6; ours holds in all "
        f"of {histories:,} histories.",
        all(broken) and all(held) and bool(held),
    )
