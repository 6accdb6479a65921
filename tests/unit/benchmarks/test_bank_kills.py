"""The figure of a bank whose sum never changes: what the docs say of it."""

from pathlib import Path

from bank_kills.figure import clean, sentence
from harness.report import DOCS, KEPT
from harness.results import load


def test_the_docs_have_the_newest_run_of_ten_minutes() -> None:
    newest = load(KEPT / "kills" / "bank.jsonl")[-1]
    page = Path(DOCS, "explanation", "reliability.md").read_text()
    assert clean(newest) and newest["seconds"] >= 600 and sentence(newest) in page
