"""One condition, written so that its time moves only when its status does.

Does not: know when one holds.
"""

from flamestream_operator.api.conditions import MAX_MESSAGE, Condition


def condition(kind: str, holds: bool, reason: str, message: str, before: Condition | None, now: str, generation: int = 0) -> Condition:
    """The next one, after `before`."""
    state = "True" if holds else "False"
    same = before is not None and before.status == state
    time = before.last_transition_time if before is not None and same else now
    return Condition(
        type=kind, status="True" if holds else "False", reason=(reason or kind)[:128], message=message[:MAX_MESSAGE],
        last_transition_time=time, observed_generation=generation,
    )  # fmt: skip
