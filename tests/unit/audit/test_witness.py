"""A witness says of a run whether it gave what came out, and never more than a search would."""

from hypothesis import given
from hypothesis import strategies as st

from flamestream.audit.definitions.history import Entered, History, Left
from flamestream.audit.definitions.judge import EXACTLY_STRICT, judged
from flamestream.audit.definitions.witness import Witness
from support.seen import Joined, seen

WORDS = st.lists(st.sampled_from(["+a", "+b", "+c", "->a", "->b", "->ab", "->ba", "->abc"]), max_size=7)


def is_witness(history: History) -> bool:
    """Whether the run in the order of entering gives it."""
    steps, state, witness = Joined(), "", Witness()
    for event in history.events:
        if isinstance(event, Entered):
            state, results = steps.step(state, event.value)
            for to, value in results:
                witness.made(to, value)
        elif isinstance(event, Left) and not witness.left(event.to, event.value):
            return False
    return not (history.ended and witness.waits)


@given(WORDS, st.booleans())
def test_of_one_partition_it_says_what_the_search_says(words: list[str], ended: bool) -> None:
    history = seen(" ".join([*words, "."] if ended else words))
    assert is_witness(history) == (judged(history, Joined())[EXACTLY_STRICT].outcome == "holds")


@given(WORDS, st.lists(st.sampled_from(["", "/q"]), min_size=7, max_size=7))
def test_of_several_it_never_says_more(words: list[str], partitions: list[str]) -> None:
    placed = [
        word + where if word[0] == "+" else word for word, where in zip(words, partitions, strict=False)
    ]
    history = seen(" ".join(placed))
    assert not is_witness(history) or judged(history, Joined())[EXACTLY_STRICT].outcome == "holds"


def test_places_are_looked_at_by_themselves() -> None:
    witness = Witness()
    witness.made("one", 1)
    witness.made("other", 2)
    assert (witness.left("other", 2), witness.left("one", 2), witness.left("one", 1), witness.waits) == (
        True,
        False,
        True,
        0,
    )
