"""The fuzzers: their kept inputs, a fixed budget of new ones, and what a broken reader of each would be found
by."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.run import Fuzzer, corpus, repeat, told
from fuzz.targets import TARGETS
from fuzz.variants import VARIANTS

guided = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this Python and machine"
)


@pytest.fixture(scope="module")
def fuzzer() -> Iterator[Fuzzer]:
    with Fuzzer() as started:
        yield started


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_are_read_or_refused(name: str) -> None:
    for data in TARGETS[name].seeds():
        TARGETS[name].check(data)
    for path in corpus(name):
        repeat(name, path)


@guided
@pytest.mark.parametrize("name", TARGETS)
def test_new_inputs_are_read_or_refused(name: str, fuzzer: Fuzzer, tmp_path: Path) -> None:
    outcome = fuzzer.fuzz(name, tmp_path, f"-runs={TARGETS[name].runs}")
    assert outcome.code == 0, told(name, outcome)


@guided
@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_reader_is_found(name: str, fuzzer: Fuzzer, tmp_path: Path) -> None:
    target = VARIANTS[name].target
    # it ends when it is found
    outcome = fuzzer.fuzz(target, tmp_path, f"-runs={25 * TARGETS[target].runs}", variant=name)
    assert outcome.broken, f"{name} was not found:\n{outcome.said[-2000:]}"
    repeat(target, outcome.broken[0])  # the reader that ships is not broken
    assert f"{target} --repeat {outcome.broken[0]}" in told(target, outcome)


def test_every_target_has_a_variant() -> None:
    assert {variant.target for variant in VARIANTS.values()} == set(TARGETS)


@guided
def test_the_same_seed_gives_the_same_inputs(fuzzer: Fuzzer, tmp_path: Path) -> None:
    for run in ("first", "second"):
        fuzzer.fuzz("message", tmp_path / run, "-runs=1000")
    first, second = (
        {path.name for path in (tmp_path / run / "corpus").iterdir()} for run in ("first", "second")
    )
    assert first == second and first
