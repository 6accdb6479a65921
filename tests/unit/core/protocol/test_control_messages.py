"""While an operator is upgraded its coordinators are of one release, and the workers that run on of another: each
reads what the other says."""

import pytest

from support.core.control_messages import BEFORE, Words, read, today, written

THEN, NOW = read(BEFORE.read_text()), today()
NEVER_TOLD: dict[str, str] = {}
"""Messages that the release before does not know, and why it is never told one: it would end its link, again and
again."""
OPTIONAL, PLACES = ", may be absent", "fields go by their places"


def problems(then: Words, now: Words) -> list[str]:
    """What one release says and the other cannot read."""
    told = [name for name in now if "begins with" in now[name][0] and name not in NEVER_TOLD]
    return [
        *(f"{name} is gone" for name in then if name not in now),
        *(f"{name} is new" for name in told if name not in then),
        *(f"{name}: {what}" for name in then if name in now for what in _differences(then[name], now[name])),
    ]


def _differences(then: list[str], now: list[str]) -> list[str]:
    (form, *before), (form_now, *after) = then, now
    if form != form_now:
        return [f"{form} is {form_now}"]
    in_places = form.startswith("array")
    kept = after[: len(before)] if in_places else [each for each in before if each in after]
    lost = [each for each in before if each not in kept and (in_places or not each.endswith(OPTIONAL))]
    if in_places and kept != before:
        return [f"{before} became {kept}: {PLACES}"]
    fresh = [each for each in after if each not in before and not each.endswith(OPTIONAL)]
    return [f"{each} is gone" for each in lost] + [f"{each} is needed" for each in fresh]


def test_this_release_and_the_one_before_read_each_other() -> None:
    assert problems(THEN, NOW) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"m.A": ["array that begins with A", "x: int"]}, []),
        ({"m.A": ["array that begins with A", "x: int", "y: int, may be absent"]}, []),
        ({"m.A": ["array that begins with A", "x: int", "y: int"]}, ["m.A: y: int is needed"]),
        ({"m.A": ["array that begins with A", "x: str"]}, [f"m.A: ['x: int'] became ['x: str']: {PLACES}"]),
        ({"m.A": ["array that begins with A"]}, [f"m.A: ['x: int'] became []: {PLACES}"]),
        ({"m.P": ["map", "a: int", "c: int, may be absent"]}, []),
        ({"m.P": ["map", "b: int, may be absent"]}, ["m.P: a: int is gone"]),
        ({"m.P": ["array", "a: int"]}, ["m.P: map is array"]),
        ({"m.B": ["array that begins with B"]}, ["m.B is new"]),
    ],
)  # fmt: skip
def test_what_would_not_be_read_is_noticed(change: Words, problem: list[str]) -> None:
    then = {"m.A": ["array that begins with A", "x: int"], "m.P": ["map", "a: int", "b: int, may be absent"]}
    assert problems(then, then | change) == problem


def test_the_file_is_read_as_it_is_written() -> None:
    assert read(written(NOW)) == NOW
