"""What is wrong with one job's inputs and operations is said of that job: nothing is under way for ever, or
backs off in silence."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs import stream_effects as job_streams
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.inputs import JobInputs
from flamestream_operator.jobs.memory import Memory
from flamestream_operator.jobs.stream_effects import JobStreams

GOOD = "a2V5"


def tools(**more: Any) -> Tools:
    return cast(
        Tools,
        SimpleNamespace(
            **{"api": None, "hosting": None, "again": lambda key: None, "instant": lambda: 0.0} | more
        ),
    )


@pytest.mark.parametrize("wrong", ["/w==", "no base64", 7, None])
def test_a_secret_that_is_no_text_is_named_with_its_field(wrong: Any) -> None:
    async def get(*_: str) -> dict[str, Any]:
        return {
            "metadata": {"name": "s3-keys"},
            "data": {"AWS_ACCESS_KEY_ID": GOOD, "AWS_SECRET_ACCESS_KEY": wrong},
        }

    inputs = JobInputs(tools(api=SimpleNamespace(get=get)))
    with pytest.raises(
        LookupError, match="Secret 's3-keys': AWS_SECRET_ACCESS_KEY is not there, or not text"
    ):
        asyncio.run(inputs.keys("here", "s3-keys"))


def test_an_operation_that_breaks_is_not_under_way_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr(job_streams, "OPERATE_AGAIN", 0.0)
    streams, memory = JobStreams(tools(hosting=SimpleNamespace(forget=forget))), Memory("uid")
    asyncio.run(
        streams._operate(
            ("here", "job"), memory, do.Begin("forgetting/1", "forget", cast(Any, None)), cast(Any, None)
        )
    )
    assert (memory.operations["forgetting/1"].done, memory.operations["forgetting/1"].problem) == (
        True,
        "no such thing",
    )
