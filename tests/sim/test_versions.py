"""State that is of another version with each edit: each key's is made the new one's once, when it is touched, whatever
crashes."""

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.model.kernel import kernel
from flamestream.simulation.kinds import run
from support.seeds import chunks

PARTS = [REFERENCE, *([] if kernel is None else [native(kernel)])]


@pytest.mark.parametrize("first", chunks(0, 1000, 50, at_push=50))
def test_a_state_of_any_version_becomes_that_of_now(first: int) -> None:
    results = [run("migrations", seed) for seed in range(first, first + 50)]
    assert sum(result.coverage["tick.made"] for result in results) > 25


@pytest.mark.parametrize("first", chunks(0, 60, 20, at_push=20))
@pytest.mark.parametrize("guarantee", ["exactly-once-2pc", "at-most-once"])
def test_so_it_is_where_output_waits_for_commits(guarantee: str, first: int) -> None:
    results = [run("migrations", seed, guarantee) for seed in range(first, first + 20)]
    assert sum(result.coverage["tick.made"] for result in results) > 8


@pytest.mark.parametrize("first", chunks(0, 60, 20, at_push=20))
@pytest.mark.parametrize("parts", PARTS[1:])
def test_the_kernel_does_the_same_to_the_byte(parts: Parts, first: int) -> None:
    for seed in range(first, first + 20):
        assert run("migrations", seed, parts=parts).trace_hash == run("migrations", seed).trace_hash
