"""Every commit is tried with 200 seeds of its own; the head of the test run says which."""

import subprocess

import pytest

from flamestream.testing import swarm
from sim import commit_seeds


@pytest.mark.parametrize(("kind", "guarantee"), commit_seeds.shares())
def test_every_invariant_holds_at_every_event(kind: str, guarantee: str) -> None:
    seeds = commit_seeds.shares()[kind, guarantee]
    result = swarm(seeds, guarantee=guarantee, kind=kind)
    assert not result.failures, "\n".join(str(failure) for failure in result.failures)
    assert len(result.reports) == len(seeds)


def test_they_are_200_and_the_head_of_the_run_says_how_to_repeat_them(request: pytest.FixtureRequest) -> None:
    seeds = [seed for share in commit_seeds.shares().values() for seed in share]
    assert len(set(seeds)) == 200
    assert f"{seeds[0]}:" in commit_seeds.told() and f":{seeds[-1] + 1}" in commit_seeds.told()


def test_without_git_they_are_chosen_from_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object, **settings: object) -> None:
        raise FileNotFoundError("git")

    of_commit = commit_seeds.first_seed()
    monkeypatch.setattr(subprocess, "run", missing)
    of_sources = commit_seeds.first_seed()
    assert of_sources != of_commit
    assert of_sources == commit_seeds.first_seed()
