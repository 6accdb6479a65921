"""Policies by name: those that release early, ours, and one for each guarantee.

What a deterministic system knows of order is its input's time; FlameStream's journalled fronts write down the
order that they choose, and are deterministic from there on.
"""

from collections.abc import Mapping
from typing import Final

from flamestream.papers.systems import Policy

EARLY: Final = (
    Policy("replay from a snapshot"),
    Policy("replay from a snapshot that has the results in flight", holds=True),
    Policy("replay everything, to a consumer without memory", snapshot="never", filters=False),
    Policy("skip to what is new", recovers="skip", filters=False),
    Policy("begin anew", snapshot="never", recovers="anew"),
)
"""Results leave at once, in whatever order letters were applied."""

OURS: Final = (
    Policy("FlameStream, timed input", order="time", snapshot="when delivered"),
    Policy("FlameStream, journalled order", order="journal", snapshot="when delivered"),
)

PAPER: Final = Policy("the paper's protocol: snapshots do not wait for delivery", order="time")

OF_GUARANTEE: Final[Mapping[str, Policy]] = {
    "none": Policy("none", snapshot="never", recovers="anew", filters=False),
    "at-most-once": Policy("at-most-once", order="time", leaves="committed", holds=True, recovers="skip"),
    "at-least-once": Policy("at-least-once", order="journal", snapshot="when delivered", filters=False),
    "exactly-once": Policy("exactly-once", order="journal", snapshot="when delivered"),
    "strong-productions": Policy("strong-productions", order="journal", snapshot="when delivered"),
    "exactly-once-2pc": Policy("exactly-once-2pc", leaves="committed", holds=True),
    "micro-batch": Policy("micro-batch", leaves="committed", holds=True),
}
"""A journal of results, as strong productions have it, fixes their order as a journal of runs does. A batch
is an epoch whose input is known when it begins; to the definitions that makes no difference."""
