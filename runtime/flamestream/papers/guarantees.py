"""The guarantees that a job can ask for, with the definitions that each keeps, found by exhaustive search."""

from collections.abc import Mapping

from flamestream.job.manifest import GUARANTEES
from flamestream.papers.explore import Exploration, explore
from flamestream.papers.policies import OF_GUARANTEE
from flamestream.papers.report import Report, Table
from flamestream.papers.systems import Policy, appended

INPUTS = "abc"
CLAIMED: Mapping[str, str] = {
    "none": "-",
    "at-most-once": "7 / 7",
    "at-least-once": "6 / 6 without repeats",
    "exactly-once": "6 / 6",
    "strong-productions": "6 / 6",
    "exactly-once-2pc": "6 / 6",
    "micro-batch": "6 / 6",
}
"""As printed / read strictly."""
_RECOVERS = {
    "replay": "input behind the snapshot is computed again",
    "skip": "input behind the snapshot is skipped",
    "anew": "all is read anew",
}


def run() -> Report:
    """A row a guarantee that a manifest may name."""
    return report(OF_GUARANTEE, GUARANTEES)


def report(policies: Mapping[str, Policy], accepted: tuple[str, ...]) -> Report:
    """Explore the policy of each; the claim is `CLAIMED`, and that these are all that are `accepted`."""
    found = {name: _definitions(policy) for name, policy in policies.items()}
    rows = [
        (
            name,
            found[name],
            "its epoch's commit" if policy.leaves == "committed" else _at_once(policy),
            _RECOVERS[policy.recovers],
        )
        for name, policy in policies.items()
    ]
    return Report(
        "The guarantees of a job",
        "definitions 6, 7 and 8 of the delivery paper: exactly once, at most once, at least once.",
        (
            Table(
                f"What each guarantee keeps, as printed / read strictly, in all histories of {INPUTS}",
                ("guarantee", "definitions", "a result waits for", "after a failure"),
                tuple(rows),
            ),
        ),
        "6 implies 7 and 8.",
        found == CLAIMED and set(accepted) == set(policies),
    )


def _at_once(policy: Policy) -> str:
    return "minimal time, journal" if policy.order == "journal" else "minimal time"


def _definitions(policy: Policy) -> str:
    """The strongest that holds: 6, else 6 when repeats are removed, else 7, else 8."""
    found = explore(policy, appended, INPUTS)
    if both := _both(found, 6):
        return both
    if not policy.filters and (both := _both(explore(policy, appended, INPUTS, once=True), 6)):
        return f"{both} without repeats"
    return _both(found, 7) or _both(found, 8) or "-"


def _both(found: Exploration, definition: int) -> str:
    """As printed / read strictly, as in `6 / -`; empty if not even as printed."""
    if not found.holds(definition, strict=False):
        return ""
    return f"{definition} / {definition if found.holds(definition, strict=True) else '-'}"
