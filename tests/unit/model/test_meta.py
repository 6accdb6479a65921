"""Metas: comparing bytes is the pre-order walk of the derivation tree."""

from hypothesis import given
from hypothesis import strategies as st

from flamestream.model.meta import (
    COMPONENTS,
    LEAST,
    MAX_COMPONENT,
    Meta,
    child,
    component,
    first_component,
    floor,
    meta_of,
    time_of_meta,
)
from flamestream.model.time import END, Time

EDGES = sorted({0, MAX_COMPONENT, *(2**bit + near for bit in range(1, 35) for near in (-1, 0, 1))})
INDICES = st.one_of(st.sampled_from(EDGES), st.integers(0, MAX_COMPONENT))
TIMES = st.one_of(st.integers(0, 300), st.integers(0, END)).map(Time)
TRACES = st.lists(INDICES, min_size=1, max_size=5)


def meta(time: Time, trace: list[int]) -> Meta:
    made = meta_of(time, trace[0])
    for index in trace[1:]:
        made = child(made, index)
    return made


@given(TIMES, TRACES, TIMES, TRACES)
def test_metas_compare_as_time_and_trace_do(t: Time, a: list[int], u: Time, b: list[int]) -> None:
    assert (meta(t, a) < meta(u, b)) == ((t, a) < (u, b))
    assert (meta(t, a) == meta(u, b)) == ((t, a) == (u, b))


@given(TIMES, TRACES, TRACES)
def test_a_parent_is_a_prefix_of_its_descendants_and_of_nothing_else(
    t: Time, a: list[int], b: list[int]
) -> None:
    assert meta(t, b).startswith(meta(t, a)) == (b[: len(a)] == a)


@given(TIMES, TRACES)
def test_floors_cut_between_runs(t: Time, trace: list[int]) -> None:
    assert LEAST < floor(t) < meta(t, trace)
    assert time_of_meta(meta(t, trace)) == t
    if t < END:
        assert meta(t, trace) < floor(Time(t + 1))


def test_no_component_is_the_beginning_of_another() -> None:
    encoded = [component(index) for index in EDGES]
    assert encoded == sorted(set(encoded))
    assert not any(b.startswith(a) for a in encoded for b in encoded if a != b)


def test_the_ready_made_components_are_those_made() -> None:
    assert [component(index) for index in range(5000)][:4096] == list(COMPONENTS)


def test_the_least_meta_has_the_start_as_its_time() -> None:
    assert time_of_meta(LEAST) == 0


@given(st.integers(0, (1 << 35) - 1), st.integers(0, 5000))
def test_the_first_component_is_the_position_in_the_run(position: int, more: int) -> None:
    assert first_component(child(meta_of(Time(5), position), more)) == position
