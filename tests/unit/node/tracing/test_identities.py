"""What is traced, and by which ids, follows from a run's place alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamestream.model.ids import Attempt
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.node.tracing.identities import Identities, Trace, continued, traceparent

TIMES = st.builds(time_of, st.integers(0, 1 << 51).map(Timestamp), st.integers(0, 63).map(FrontId))
HEADER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(TIMES, st.integers(1, 10_000))
def test_two_workers_sample_the_same_runs_under_the_same_ids(time: Time, every: int) -> None:
    one, other = Identities("job", every), Identities("job", every)
    assert one.sampled(time) == other.sampled(time)
    assert one.of_run(time) == other.of_run(time)
    assert one.span(one.of_run(time), b"sink", b"meta") == other.span(other.of_run(time), b"sink", b"meta")


@pytest.mark.parametrize("step", [1, 4096, 1000 * 4096])
def test_about_one_of_so_many_is_sampled_however_regular_times_are(step: int) -> None:
    identities = Identities("job", 100)
    sampled = sum(
        identities.sampled(Time(1_700_000_000_000_000 * 4096 + number * step)) for number in range(100_000)
    )
    assert 800 < sampled < 1_200


def test_jobs_runs_and_attempts_have_traces_of_their_own() -> None:
    one, other = Identities("one", 1), Identities("other", 1)
    traces = [
        one.of_run(Time(5)), one.of_run(Time(6)), other.of_run(Time(5)), one.of_recovery(Attempt(5)),
        one.of_recovery(Attempt(6)),
    ]  # fmt: skip
    assert len({trace.id for trace in traces}) == len(traces)


def test_parts_of_a_place_are_told_apart() -> None:
    identities = Identities("job", 1)
    trace = identities.of_run(Time(5))
    assert identities.span(trace, b"a", b"bc") != identities.span(trace, b"ab", b"c")


def test_a_context_is_read_as_it_is_written() -> None:
    trace = continued(b"p", HEADER)
    assert trace == Trace(b"p", 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)
    assert traceparent(trace.id, trace.caller) == HEADER


def test_a_later_version_may_say_more() -> None:
    assert continued(b"", HEADER.replace("00-", "01-", 1) + "-more") is not None


@pytest.mark.parametrize(
    "header",
    [
        HEADER[:-2] + "00", HEADER.replace("00-", "ff-", 1), HEADER + "-more", HEADER.upper(), HEADER[:-1], "",
        "x" * 55, f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01", HEADER + "\n",
    ],
)  # fmt: skip
def test_what_is_no_context_or_is_not_sampled_is_not_traced(header: str) -> None:
    assert continued(b"", header) is None
