"""Write the tables of docs/reliability.md: `PYTHONPATH=runtime:tests python tests/sim/variants/table.py` (half a minute)."""

from pathlib import Path

from flamestream.testing import swarm
from flamestream.testing.faults import Fault
from sim.variants import VARIANTS

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"


def variants() -> str:
    """A row a broken variant."""
    rows = ["| taken away | scenario | caught by seed | invariant | after |", "|---|---|---|---|---|"]
    for variant in VARIANTS:
        caught = variant.caught()
        assert caught is not None, f"{variant.name} is not caught"
        seed, failure = caught
        scenario = "directed" if variant.adjust is not None or variant.job is not None else "drawn"
        milliseconds = (failure.now - 1_000_000) / 1000
        rows.append(f"| {variant.name} | {scenario} | {seed} | {failure.invariant} | {milliseconds:.0f} ms |")
    return "\n".join(rows)


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
