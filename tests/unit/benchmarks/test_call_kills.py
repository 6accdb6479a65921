"""The figure of a hundred kills: who dies when, and what the docs say of it."""

from collections import Counter
from pathlib import Path

from figures.call_kills import SERVICE, plan_of, sentence
from harness.report import DOCS, KEPT
from harness.results import load

from support.runs.kills import Role


def test_all_kinds_die_in_turns_at_ascending_moments() -> None:
    plan = plan_of(100, seed=1)
    parts = [part for part, _ in plan]
    assert parts == sorted(parts) and 0 < parts[0] < parts[-1] < 1
    assert Counter(victim for _, victim in plan) == {
        Role.WORKER: 30, Role.CALLER: 30, SERVICE: 20, Role.COORDINATOR: 10, Role.LAUNCHER: 10,
    }  # fmt: skip


def test_the_docs_have_the_newest_run() -> None:
    newest = load(KEPT / "call_kills.jsonl")[-1]
    page = Path(DOCS, "explanation", "effective-determinism.md").read_text().replace("\n> ", " ")
    assert newest["clean"] and sentence(newest) in page
