"""Conditions: what `kubectl wait --for=condition=TYPE` waits for.

Keeps: every type is always there, and its time moves only when its status does. Does not: know when one holds
(jobs/conditions.py).
"""

from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

from flamestream.job.manifest_parts import Part

ConditionType = Literal[
    "Ready", "Running", "Checkpointing", "Recovering", "Suspended", "Degraded", "Completed", "Failed",
    "Reconciling", "Stalled",
]  # fmt: skip
TYPES: Final[tuple[ConditionType, ...]] = get_args(ConditionType)
MAX_MESSAGE: Final = 1024


class Condition(Part, frozen=True):
    """A statement about the object."""

    type: Annotated[str, Meta(max_length=32)]
    """Ready: the stream runs, whole, and saves its state; or it has completed, or is suspended as asked. Running:
    results flow. Checkpointing: epochs commit in time. Recovering: a failure is being repaired. Suspended: stopped
    at a committed epoch. Degraded: it runs with less than was asked for. Completed: all input is through. Failed:
    it does not go on by itself. Reconciling: what the newest spec asks for is being made. Stalled: what it asks for
    is not made, until somebody edits it. Of a snapshot or a drill: Ready, it has ended well; Reconciling, it is not
    over; Stalled, it has failed."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Meta(max_length=128)]
    """Why, in one word."""
    message: Annotated[str, Meta(max_length=MAX_MESSAGE)]
    """Why, and what to do."""
    last_transition_time: str
    """When the status changed."""
    observed_generation: int = 0
    """The generation of the spec that it is about."""


def conditions_of_ending(
    completed: bool,
    failed: bool,
    reason: str,
    message: str,
    before: list[Condition],
    now: str,
    generation: int,
) -> list[Condition]:
    """Completed and Failed of an object that ends, and what kstatus knows of it, as they follow on `before`."""
    known = {each.type: each for each in before}
    holding = {
        "Ready": completed and not failed,
        "Completed": completed,
        "Failed": failed,
        "Reconciling": not (completed or failed),
        "Stalled": failed,
    }
    return [
        condition(kind, holds, reason, message, known.get(kind), now, generation)
        for kind, holds in holding.items()
    ]


def condition(
    kind: str, holds: bool, reason: str, message: str, before: Condition | None, now: str, generation: int = 0
) -> Condition:
    """The condition `kind` as it follows on `before`."""
    state: Literal["True", "False"] = "True" if holds else "False"
    time = before.last_transition_time if before is not None and before.status == state else now
    return Condition(
        type=kind, status=state, reason=(reason or kind)[:128], message=message[:MAX_MESSAGE],
        last_transition_time=time, observed_generation=generation,
    )  # fmt: skip
