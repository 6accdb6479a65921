"""A campaign is resumed where it stopped, counts what it ran, and keeps what it found."""

from pathlib import Path

import pytest

from flamestream.core.worker.acker_role import Acker
from flamestream.simulation.kinds import KINDS
from sim import campaign
from sim.campaign import Campaign, Chunk, chunks, run
from sim.variants.variant import patched


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "CHUNK", 4)


@pytest.mark.usefixtures("short")
def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = Campaign(tmp_path)
    for chunk in first.left(100, 12)[:2]:
        first.add(run(chunk))
    with (tmp_path / "chunks.jsonl").open("a") as log:
        log.write('{"kind": "any", "guarantee": "exactly-')  # killed while it wrote
    second = Campaign(tmp_path)
    assert [chunk.first for chunk in second.left(100, 12)] == [108]
    second.add(run(second.left(100, 12)[0]))
    assert Campaign(tmp_path).left(100, 12) == []
    assert "| any | exactly-once | 12 | 100 | 112 |" in Campaign(tmp_path).report()


@pytest.mark.usefixtures("short")
def test_a_seed_that_was_run_in_a_shorter_chunk_is_not_counted_twice(tmp_path: Path) -> None:
    longer = Campaign(tmp_path)
    for chunk in [*longer.left(0, 2), *longer.left(0, 4)]:
        longer.add(run(chunk))
    assert [chunk.count for chunk in Campaign(tmp_path).done] == [4]
    assert Campaign(tmp_path).left(0, 3) == []


def test_every_guarantee_has_its_turn_and_every_seed_is_run_once() -> None:
    all_of_it = list(chunks(10, 5010))
    assert {(chunk.kind, chunk.guarantee) for chunk in all_of_it} == {
        (kind, guarantee) for kind, its in KINDS.items() for guarantee in its.guarantees
    }
    assert [seed for chunk in all_of_it for seed in range(chunk.first, chunk.first + chunk.count)] == list(
        range(10, 5020)
    )


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (("any", "at-least-once"), " --guarantee at-least-once"),
        (("calls", "exactly-once"), " --kind calls"),
        (("calls", "none"), " --guarantee none --kind calls"),
    ],
)
def test_what_it_finds_is_in_the_report_with_the_command_that_shows_it_again(
    tmp_path: Path, turn: tuple[str, str], told: str
) -> None:
    found = Campaign(tmp_path)
    with patched(Acker, questions=lambda self: []):
        found.add(run(Chunk(*turn, 0, 6)))
    assert found.findings
    seed = found.findings[0]["seed"]
    assert f"flamestream simulate --seed {seed}{told} --trace" in Campaign(tmp_path).report()


def test_changed_code_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = campaign.identity()
    monkeypatch.setattr(campaign, "SIMULATED", ("core",))
    assert campaign.identity() != before
