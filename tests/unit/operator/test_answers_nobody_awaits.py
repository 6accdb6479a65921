"""An answer that nobody waits for any more is dropped: it must not end the loop that the coordinators of all
jobs share."""

from concurrent.futures import Future

import pytest

from flamestream.model.errors import UserError
from flamestream_operator.coordination.coordinators import _settle


@pytest.mark.parametrize("result", ["an answer", UserError("a refusal")], ids=["answer", "error"])
def test_an_answer_to_somebody_who_has_given_up_raises_nothing(result: object) -> None:
    answer: Future[object] = Future()
    answer.cancel()
    _settle(answer, result)
    assert answer.cancelled()
