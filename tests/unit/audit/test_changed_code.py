"""Which results an audit may ask the application about."""

import pytest

from flamestream.audit.changed_code import by_this_code
from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.model.errors import UserError
from flamestream.model.time import END, START, Time

A, B = CodeSpan(START, "a"), CodeSpan(Time(8192), "b")


@pytest.mark.parametrize(
    ("spans", "code", "until"),
    [
        ((), "a", END),
        ((A,), "a", END),
        ((A, B), "a", Time(8192)),
        ((A, B, CodeSpan(Time(9000), "a")), "a", Time(8192)),
    ],
)
def test_it_vouches_for_what_lies_below_the_first_change(
    spans: tuple[CodeSpan, ...], code: str, until: Time
) -> None:
    found, told = by_this_code(spans, code)
    assert found == until
    assert bool(told) == (until != END) and ("time 2 us (b)" in told) == (until != END)


@pytest.mark.parametrize("spans", [(A,), (A, B), (A, B, CodeSpan(Time(9000), "c"))])
def test_other_code_cannot_say_what_should_have_been(spans: tuple[CodeSpan, ...]) -> None:
    with pytest.raises(UserError, match=r"the application's code is \w, but the job began with a"):
        by_this_code(spans, spans[-1].digest if len(spans) > 1 else "z")


def test_the_code_of_now_may_stand_for_all_of_it() -> None:
    assert by_this_code((A, B), "z", all_of_it=True) == (
        END,
        "the application's code was edited; all was interpreted with the code of now",
    )
