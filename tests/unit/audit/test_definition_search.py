"""The search says what trying everything says, is as long as a history whose order is the order of entering,
and says undecided at its bound."""

from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flamestream.audit.definitions.history import Entered, Event, History, Left, OneKey, by_key
from flamestream.audit.definitions.judge import EXACTLY_STRICT, FORMS, Form, judged, rules_of
from flamestream.audit.definitions.search import Rules, explained
from support.seen import Joined, seen

WORDS = st.sampled_from(
    ["+a", "+b", "+c", "+a/q", "+b/q", "->a", "->b", "->ab", "->ba", "->aa", "->aca", "->aab", "->acb"]
)


def tried(history: History, form: Form) -> bool:
    """Whether a run gives the history: every run is made, and every way to pair its results with outputs."""
    items = [event for event in history.events if isinstance(event, Entered)]
    outputs = [event for event in history.events if isinstance(event, Left)]
    partitions = [[item for item in items if item.partition == name] for name in ("p", "q")]
    return any(gives(run, outputs, form, history.ended) for run in runs(partitions, rules_of(form, 1)))


def runs(partitions: list[list[Entered]], rules: Rules) -> Iterator[list[Entered]]:
    """Every order of the items that keeps that of each partition; with what the rules allow beside."""

    def onward(heads: tuple[int, int], repeats: int) -> Iterator[list[Entered]]:
        if all(head == len(items) for head, items in zip(heads, partitions, strict=True)):
            yield []
        for number, head in enumerate(heads):
            moved = [(heads[0], heads[1]), (heads[0], heads[1])]
            if head < len(partitions[number]):
                moved[0] = (head + 1, heads[1]) if number == 0 else (heads[0], head + 1)
                yield from ([partitions[number][head], *rest] for rest in onward(moved[0], repeats))
                if rules.leaves_out:
                    yield from onward(moved[0], repeats)
            for back in range(head) if repeats else ():
                moved[1] = (back, heads[1]) if number == 0 else (heads[0], back)
                yield from onward(moved[1], repeats - 1)

    yield from onward((0, 0), rules.repeats)


def gives(run: list[Entered], outputs: list[Left], form: Form, ended: bool) -> bool:
    """Whether the results of a run are these outputs, each behind the items that it follows from."""
    steps, state, entered = Joined(), "", 0
    made: list[tuple[int, object]] = []
    for item in run:
        entered = max(entered, item.place)
        state, results = steps.step(state, item.value)
        made += [(entered, value) for _, value in results]
    if form.strict:
        if len(made) < len(outputs) or (ended and len(made) > len(outputs)):
            return False
        return all(fits(result, output) for result, output in zip(made, outputs, strict=False))
    return any(
        all(fits(result, output) for result, output in zip(chosen, outputs, strict=True))
        for chosen in permutations(made, len(outputs))
    )


def fits(result: tuple[int, object], output: Left) -> bool:
    return result[0] < output.place and result[1] == output.value


@given(st.lists(WORDS, max_size=6), st.booleans())
@example(["+a", "+b", "->ab"], True)
@example(["+a", "+a/q", "->a", "->aa", "->aaa"], True)
@example(["+b", "+a/q", "->ab"], False)
def test_the_search_says_what_trying_everything_says(words: list[str], ended: bool) -> None:
    if sum(word.startswith("+") for word in words) > 4:
        words = [word for word in words if word.startswith("->")] + words[:4]
    history = seen(" ".join([*words, "."] if ended else words))
    verdicts = judged(history, Joined())
    assert {form: verdicts[form].outcome == "holds" for form in FORMS} == {
        form: tried(history, form) for form in FORMS
    }


class Counted(Joined):
    """It knows how often it was asked."""

    def __init__(self) -> None:
        self.taken = 0

    def step(self, state: str, value: str) -> tuple[str, list[tuple[object, object]]]:
        self.taken += 1
        return value, [("out", value)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_history_in_the_order_of_entering_takes_each_item_once(partitions: int) -> None:
    count = 3000
    items = [Entered(2 * number, "k", number % partitions, str(number)) for number in range(count)]
    outputs = [Left(2 * number + 1, "k", "out", str(number)) for number in range(count)]
    steps = Counted()
    assert explained(OneKey("k", True, items, outputs), steps, Rules(strict=True), bound=0).outcome is True
    assert steps.taken == count


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_at_its_bound_a_search_is_undecided(form: Form) -> None:
    """Eight items in any order, which give nothing."""
    items = [Entered(number, "k", number, "c") for number in range(8)]
    one = OneKey("k", True, items, [Left(9, "k", "out", "x")])
    assert explained(one, Joined(), rules_of(form, 1)).outcome is False
    assert explained(one, Joined(), rules_of(form, 1), bound=20).outcome is None
    history = History([*items, *one.outputs], ended=True)
    assert judged(history, Joined(), bound=20)[form].outcome == "undecided"


def out_of_order(key: int) -> list[Event]:
    """Seven items that were taken backwards: eleven more than those have to be tried."""
    items: list[Event] = [Entered(at, key, at, letter) for at, letter in enumerate("abdefgh")]
    return [*items, *(Left(9, key, "out", "hgfedba"[:length]) for length in (1, 2, 3))]


def test_all_keys_together_have_a_bound() -> None:
    few = [event for key in range(5) for event in out_of_order(key)]
    assert judged(History(few, ended=False), Joined(), bound=12)[EXACTLY_STRICT].outcome == "holds"
    many = [event for key in range(30) for event in out_of_order(key)]
    verdict = judged(History(many, ended=False), Joined(), bound=12)[EXACTLY_STRICT]
    assert (verdict.outcome, verdict.keys, 0 < verdict.undecided < 25) == ("undecided", 0, True)


def test_a_broken_key_outweighs_an_undecided_one() -> None:
    items = [Entered(number, "k", number, "c") for number in range(8)]
    outputs = [Left(9, "k", "out", "x"), Left(10, "other", "out", "y")]
    history = History([*items, *outputs], ended=True)
    verdict = judged(history, Joined(), bound=20)[Form(6)]
    assert (verdict.outcome, verdict.keys, verdict.undecided, verdict.place) == ("broken", 1, 1, 10)


def test_keys_are_told_apart() -> None:
    events: list[Event] = [Entered(1, "k", "p", "a"), Left(2, "j", "out", "a"), Left(3, "k", "out", "a")]
    assert [(one.key, len(one.items), len(one.outputs)) for one in by_key(History(events, ended=False))] == [
        ("k", 1, 1),
        ("j", 0, 1),
    ]
