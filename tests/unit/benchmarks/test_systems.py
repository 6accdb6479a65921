"""What each system is started with."""

import json
import re
from pathlib import Path

import pytest
from systems import SYSTEMS
from systems.base import AT_LEAST_ONCE, EXACTLY_ONCE, NONE, Cell, Places

REQUIREMENTS = Path(__file__).parents[3] / "requirements" / "bench"
KINDS = [(name, guarantee) for name, system in SYSTEMS.items() for guarantee in system.guarantees]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places("127.0.0.1:1001", "127.0.0.1:1002", tmp_path, "127.0.0.1:1003", "group")


def command_of(name: str, cell: Cell, places: Places) -> list[str]:
    return list(SYSTEMS[name].command(cell, places).argv)


@pytest.mark.parametrize(("name", "guarantee"), KINDS)
def test_every_system_is_told_where_the_outside_is(name: str, guarantee: str, places: Places) -> None:
    said = " ".join(command_of(name, Cell(guarantee), places)) + "".join(
        file.read_text() for file in places.folder.glob("*.yaml")
    )
    assert "127.0.0.1:1001" in said and "127.0.0.1:1002" in said


@pytest.mark.parametrize(("name", "guarantee"), KINDS)
def test_every_setting_has_a_value_and_a_reason(name: str, guarantee: str) -> None:
    for setting in SYSTEMS[name].settings(Cell(guarantee)):
        assert setting.name and setting.value and len(setting.reason) > 10


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_says_its_version(name: str) -> None:
    assert all(
        re.search(r"\d", version) or version in ("native", "Python")
        for version in SYSTEMS[name].versions().values()
    )


def test_ours_runs_the_guarantee_and_interval_of_the_cell(places: Places) -> None:
    command_of("flamestream", Cell(NONE, 250, workers=3), places)
    spec = json.loads((places.folder / "job.yaml").read_text())["spec"]
    assert (spec["guarantee"], spec["checkpoint"]["interval"], spec["workers"]["replicas"]) == (
        "none",
        "250ms",
        3,
    )


def test_flink_takes_checkpoints_as_the_cell_says(places: Places) -> None:
    command = command_of("flink", Cell(EXACTLY_ONCE, 50), places)
    assert (
        "execution.checkpointing.interval=50 ms" in command
        and "execution.checkpointing.mode=EXACTLY_ONCE" in command
    )
    assert "execution.checkpointing.mode=AT_LEAST_ONCE" in command_of(
        "flink", Cell(AT_LEAST_ONCE, 50), places
    )


def test_flink_without_a_guarantee_takes_no_checkpoints(places: Places) -> None:
    assert not [word for word in command_of("flink", Cell(NONE), places) if "checkpointing" in word]


def test_flink_flushes_each_record_for_latency_and_not_at_full_rate(places: Places) -> None:
    assert "execution.buffer-timeout.interval=0 ms" in command_of("flink", Cell(rate=50.0), places)
    assert "execution.buffer-timeout.interval=100 ms" in command_of("flink", Cell(rate=0.0), places)


def test_bytewax_keeps_nothing_without_a_guarantee(places: Places) -> None:
    folder = str(places.folder / "recovery")
    assert folder not in command_of("bytewax", Cell(NONE), places)
    assert command_of("bytewax", Cell(AT_LEAST_ONCE, 50), places)[-2:] == ["50", folder]


def test_spark_begins_a_batch_at_each_interval_or_at_once_at_full_rate(places: Places) -> None:
    assert command_of("spark", Cell(EXACTLY_ONCE, 500), places)[-1] == "500"
    assert command_of("spark", Cell(EXACTLY_ONCE, 500, rate=0.0), places)[-1] == "0"


def test_quix_commits_in_seconds(places: Places) -> None:
    command = command_of("quix", Cell(EXACTLY_ONCE, 50), places)
    assert command[command.index("exactly-once") + 1] == "0.05"


def test_pins_of_peers_name_no_index_and_have_hashes() -> None:
    files = list(REQUIREMENTS.glob("*.txt"))
    assert files
    for file in files:
        text = file.read_text()
        assert "://" not in text, file.name
        assert len(re.findall(r"^\S+==", text, re.MULTILINE)) <= text.count("--hash="), file.name


def test_flink_for_the_tail_differs_in_buffers_and_heartbeats_only(places: Places) -> None:
    median, tail = (set(command_of(name, Cell(NONE), places)) for name in ("flink", "flink 1 ms"))
    assert median - tail == {"execution.buffer-timeout.interval=0 ms"}
    assert tail - median == {
        "execution.buffer-timeout.interval=1 ms",
        "heartbeat.interval=500 ms",
        "heartbeat.timeout=2500 ms",
    }
