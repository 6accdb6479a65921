"""Which results an audit may ask the application about."""

import pytest
from msgspec.structs import replace

from flamestream.audit.changed_code import judged_until, spans_behind
from flamestream.audit.committed import LastCommit
from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.model.errors import UserError
from flamestream.model.time import END, START, Time
from support.runs.past_run import going_on

A, B, C = CodeSpan(START, "a"), CodeSpan(Time(8192), "b"), CodeSpan(Time(12288), "c")


@pytest.mark.parametrize(
    ("spans", "code", "kept", "until"),
    [
        ((), "a", "", END),
        ((A,), "a", "", END),
        ((A,), "z", "a", END),
        ((A, B), "a", "", Time(8192)),
        ((A, B, CodeSpan(Time(9000), "a")), "a", "", Time(8192)),
        ((A, B), "a", "b", END),
        ((A, B), "b", "a", END),
        ((A, B, C), "c", "a", Time(8192)),
        ((A, B, C), "a", "b", Time(12288)),
        ((A, B, C), "z", "abc", END),
    ],
)
def test_it_judges_up_to_the_first_code_that_is_not_at_hand(
    spans: tuple[CodeSpan, ...], code: str, kept: str, until: Time
) -> None:
    found, told = judged_until(spans, code, kept)
    assert found == until
    assert ("not looked at" in told) == (until != END)
    if until != END:
        gone = next(span for span in spans if span.since == until)
        assert f"from time {until >> 12} us ({gone.digest}) on" in told
    assert bool(told) == any(span.digest != code for span in spans)


@pytest.mark.parametrize("spans", [(A,), (A, B), (A, B, CodeSpan(Time(9000), "c"))])
def test_other_code_cannot_say_what_should_have_been(spans: tuple[CodeSpan, ...]) -> None:
    code = spans[-1].digest if len(spans) > 1 else "z"
    with pytest.raises(UserError, match=r"the application's code is \w, but the job began with a"):
        judged_until(spans, code, kept="b")


def test_the_code_of_now_may_stand_for_all_of_it() -> None:
    assert judged_until((A, B), "z", all_of_it=True) == (
        END,
        "the application's code was edited; all was interpreted with the code of now",
    )


def test_code_that_has_committed_nothing_yet_made_what_is_above_the_cut() -> None:
    past = going_on()
    record, index = past.record(), past.index()
    assert index is not None
    last = LastCommit(replace(record, code="b"), replace(index, code=(A,)))
    assert spans_behind(last) == (A, CodeSpan(past.cut, "b"))
    assert spans_behind(LastCommit(replace(record, code="b"), index)) == (), "nothing is known of code before"
