"""Write the tables of docs/explanation/reliability.md: `make reliability-table` (two minutes)."""

from pathlib import Path

from flamestream.simulation.faults import Fault
from flamestream.simulation.world import EPOCH_START
from flamestream.testing import swarm
from sim.variants import VARIANTS
from sim.variants.variant import BrokenVariant

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "reliability.md"


def row(variant: BrokenVariant, since: int = 0) -> str:
    """The first seed that catches it, of all that are tried."""
    caught = variant.caught(since)
    assert caught is not None, f"{variant.name!r} is not noticed within {variant.seeds} seeds"
    seed, failure = caught
    scenario = "directed" if variant.adjust is not None or variant.job is not None else "drawn"
    milliseconds = (failure.now - EPOCH_START) / 1000
    return (
        f"| {variant.name} | {variant.broken.where} | {scenario} | {seed} | {failure.invariant} | "
        f"{milliseconds:.0f} ms |"
    )


def rows(page: str) -> list[str]:
    """Those of the table in the page."""
    return page.partition("<!-- variants -->\n")[2].partition("<!-- end -->")[0].splitlines()[2:]


def variants() -> str:
    """A row a broken variant."""
    head = [
        "| taken away | in | scenario | caught by seed | invariant | after |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(row, VARIANTS)])


def coverage() -> str:
    """A row a fault: how often it happened in the seeds of the test."""
    result = swarm(range(500), processes=2)
    assert not result.failures, result.failures
    rows = ["| fault | times in 500 seeds |", "|---|---|"]
    rows += [f"| {fault.value} | {result.coverage[f'fault.{fault.name}']} |" for fault in Fault]
    return "\n".join(rows)


def main() -> None:
    """Replace what stands between the marks."""
    text = PAGE.read_text()
    for name, table in (("variants", variants()), ("faults", coverage())):
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert mark and end, f"{PAGE} has no place for the table of {name}"
        text = before + mark + table + "\n" + end + after
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
