"""Each side of the real-time jobs runs the job that it is asked for, between the topics that it is given."""

import json
from pathlib import Path

import pytest
import rtm_graphs
from rtm.judge import Faults, Result, judged
from rtm.records import JOBS, Schedule
from rtm.sides import SIDES
from systems.base import Places


@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("job", JOBS)
def test_a_side_is_told_its_job_and_its_topics(name: str, job: str, tmp_path: Path) -> None:
    command = SIDES[name].command(job, Places("in", "out", tmp_path, "host:1"))
    said = " ".join(command.argv) + "".join(file.read_text() for file in tmp_path.glob("job.yaml"))
    assert job in said and "in" in said and "out" in said and "host:1" in said


@pytest.mark.parametrize("name", SIDES)
def test_every_setting_has_a_reason_and_every_part_a_version(name: str) -> None:
    assert all(setting.value and setting.reason for setting in SIDES[name].settings())
    assert all(any(letter.isdigit() for letter in version) for version in SIDES[name].versions().values())


@pytest.mark.parametrize("name", ["flamestream", "flamestream transactional"])
def test_ours_is_exactly_once_with_a_checkpoint_a_second_and_read_as_its_form_asks(
    name: str, tmp_path: Path
) -> None:
    side = SIDES[name]
    side.command("count", Places("in", "out", tmp_path, "host:1"))
    spec = json.loads((tmp_path / "job.yaml").read_text())["spec"]
    form = spec["sinks"]["results"]["kafka"]["form"]
    assert (spec["guarantee"], spec["checkpoint"]["interval"]) == ("exactly-once", "1s")
    assert side.isolation == ("read_committed" if form == "transactional" else "read_uncommitted")


def test_the_graphs_give_what_a_plain_loop_gives() -> None:
    schedule, count = Schedule(59.0, 1000.0), 4000
    for name, job in JOBS.items():
        records = [rtm_graphs.Record(**schedule.fields(number)) for number in range(count)]
        found = getattr(rtm_graphs, name).run(records=records)["results"]
        names = type(found[0]).__annotations__
        rows = [Result(0.0, 0.0, {field: getattr(each, field) for field in names}) for each in found]
        assert judged(job, schedule, count, rows).faults == Faults(0, 0, 0)
