"""The files of the examples by their names, whichever folder they are in."""

from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"
ASKING = "after_lambda"
"""The folder of those with calls, which only a stream makes."""
JOBS = sorted({path.stem for path in EXAMPLES.rglob("*.yaml") if path.parent.name != ASKING})
"""Those that every runner runs."""


def example_file(name: str) -> Path:
    """An example's graph ("sessions.py") or data ("clicks.jsonl"). No two folders have one of the same name."""
    (found,) = EXAMPLES.rglob(name)
    return found
