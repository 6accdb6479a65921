"""`flamestream run` and what watches it, for real: processes, a real ZooKeeper, real kills. Workers are plain
processes here."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.connectors import sinks
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.settings import FrontSettings
from flamestream.job.exit_codes import ExitCode
from flamestream.journal.folder import everything
from flamestream.journal.places import JournalConfig
from flamestream.model.ids import SourceName
from flamestream.model.time import FrontId
from flamestream.testing.consumer import ConsumerServer
from support.eventually import eventually
from support.processes import alive, kill, suspend
from support.runs.site import Site, ended


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    runtime = Path(__file__).parents[3] / "runtime"
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(runtime), os.environ.get("PYTHONPATH", "")]))
    )
    found = Site(tmp_path)
    yield found
    found.close()


def test_what_a_job_writes_is_for_its_owner_alone(site: Site) -> None:
    """Output, journal, snapshots, record, logs: all of it holds users' data."""
    site.write("{count: 2000}")
    before = set(site.path.rglob("*"))
    ended(site.start())
    # Python's own, of the application
    made = {file for file in set(site.path.rglob("*")) - before if "__pycache__" not in file.parts}
    assert {file.name for file in made} >= {"out", "snapshots", "zookeeper", "logs", "status.json"}
    assert [str(file) for file in made if file.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("guarantee", ["exactly-once", "exactly-once-2pc", "at-least-once"])
def test_a_bounded_job_completes_and_its_audit_is_clean(site: Site, guarantee: str) -> None:
    site.write("{count: 2000}", guarantee=guarantee)
    code, answer = ended(site.start())
    assert (code, answer["outcome"]) == (ExitCode.OK, "completed")
    audit = site.audit()
    assert (audit["clean"], audit["complete"], audit["records"], audit["verdict"]["delivered"]) == (
        True,
        True,
        2000,
        2000,
    )


def test_a_completed_job_ends_at_once_when_it_is_started_again(site: Site) -> None:
    site.write("{count: 100}")
    assert ended(site.start())[0] == ExitCode.OK
    code, answer = ended(site.start())
    assert (code, answer["outcome"]) == (ExitCode.OK, "completed")
    assert site.audit()["verdict"]["delivered"] == 100


def test_sigterm_stops_a_job_and_a_second_start_goes_on(site: Site) -> None:
    site.write("{rate: 500}")
    run = site.start()
    first = site.running()
    run.send_signal(signal.SIGTERM)
    code, answer = ended(run)
    assert (code, answer["outcome"]) == (ExitCode.OK, "stopped")
    assert site.audit()["clean"]
    run = site.start()
    second = site.running(attempt=first["attempt"] + 1)
    assert second["epoch"] >= first["epoch"]
    run.send_signal(signal.SIGINT)
    assert ended(run)[1]["outcome"] == "stopped"
    audit = site.audit()
    assert audit["clean"], audit


@pytest.mark.parametrize("guarantee", ["exactly-once", "exactly-once-2pc"])
def test_a_drained_job_has_delivered_everything_that_entered(site: Site, guarantee: str) -> None:
    site.write("{rate: 500}", guarantee=guarantee)
    run = site.start("--drain")
    site.running()
    run.send_signal(signal.SIGTERM)
    code, answer = ended(run)
    assert (code, answer["outcome"]) == (ExitCode.OK, "drained")
    audit = site.audit()
    assert audit["clean"] and audit["bounds"]["outcome"] == "drained" and audit["bounds"]["epoch"] > 0
    assert (audit["verdict"]["not_due"], audit["bounds"]["held"]) == (0, 0), "nothing was under way"
    max((site.path / "out").glob("*.log"), key=lambda log: log.stat().st_size).unlink()
    damaged = site.audit()
    assert (
        damaged["verdict"]["lost"] == audit["verdict"]["delivered"] - damaged["verdict"]["delivered"] > 0
        and not damaged["clean"]
    )


@pytest.mark.parametrize(
    "guarantee", ["exactly-once-2pc", pytest.param("at-least-once", marks=pytest.mark.slow)]
)
def test_a_drill_finds_that_the_guarantee_is_kept(site: Site, guarantee: str) -> None:
    site.write("{rate: 1000}", guarantee=guarantee)
    run = site.start()
    site.running()
    code, answer = site.ask("drill", "job.yaml", "--kill", "worker", "--times", "2", "--after", "0.3")
    assert code == ExitCode.OK, answer
    found = answer["audit"]
    assert (
        found["clean"]
        and found["delivered"] > 0
        and not (found["lost"] or found["foreign"] or found["reordered"])
    ), answer
    assert guarantee == "at-least-once" or not found["doubled"]
    run.send_signal(signal.SIGTERM)
    assert ended(run)[0] == ExitCode.OK


SUMS = """\
import flamestream as fs

graph = fs.Graph("sums")
graph.source("numbers").reduce(
    key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n, emit=lambda total, n: (n, total)
).sink("totals", key=lambda result: result[0] % 7)
"""


def test_under_at_most_once_kills_lose_what_is_counted_and_double_nothing(site: Site) -> None:
    site.write("{rate: 1000}", guarantee="at-most-once")
    (site.path / "sums.py").write_text(SUMS)
    manifest = site.path / "job.yaml"
    manifest.write_text(manifest.read_text().replace("100ms", "500ms").replace("runs: 16", "runs: 1024"))
    run = site.start("--drain")
    for attempt in (1, 2):
        worker = site.running(attempt=attempt)["workers"][0]["worker"]
        kill(site.status()["pids"][worker])
    # two epochs later something has come out behind what was skipped, so the last number says how many there were
    site.running(epoch=site.running(attempt=3)["epoch"] + 2, attempt=3)
    run.send_signal(signal.SIGTERM)
    assert ended(run)[1]["outcome"] == "drained"
    given = sinks.read({"files": {"path": str(site.path / "out")}}, "spec.sinks.totals", "sums")
    totals, numbers = dict.fromkeys(range(7), 0), []
    for number, total in sorted(payload for *_, payload in given):
        totals[number % 7] += number
        assert total == totals[number % 7], "the sum of what has come out, and of nothing else"
        numbers.append(number)
    assert len(set(numbers)) == len(numbers)
    assert len(numbers) + site.status()["status"]["skipped"]["numbers"] == numbers[-1] + 1
    refused = site.audit()["error"]["message"]
    assert refused.startswith(
        "job 'sums' cannot be audited: under at-most-once no journal says which records"
    )


def test_a_source_that_waits_beside_a_timed_one_pledges_where_a_sink_forgets(site: Site) -> None:
    """`discard` does not say what it was given, so what the idle source promised is in its journal. No audit
    takes it for records."""
    site.write("{rate: 1000}", guarantee="at-least-once")
    lines = site.path / "lines"
    lines.mkdir()
    manifest, application = site.path / "job.yaml", site.path / "sums.py"
    manifest.write_text(
        manifest.read_text()
        .replace("{numbers: {", "{more: {files: {path: lines, follow: true}}, numbers: {")
        .replace("sinks: {", "sinks: {nothing: {discard: {}}, ")
        + "  journal: {folder: journal, keep: true}\n"
    )
    application.write_text(
        application.read_text().replace(
            'source("numbers")', 'source("numbers").merge(graph.source("more").map(int))'
        )
        + 'numbers.sink("nothing")\n'
    )
    run = site.start()
    site.running()
    _, answer = site.ask("drill", "job.yaml", "--no-audit", "--kill", "worker", "--after", "0.3")
    assert answer["done"] == 1, answer
    (lines / "one.txt").write_text("1\n2\n3\n")
    eventually(lambda: any(entry.count for entry in _journalled(site)), "the lines have entered")
    run.send_signal(signal.SIGTERM)
    assert ended(run)[0] == ExitCode.OK
    entries = _journalled(site)
    front = FrontSettings(_front(site), SourceName("more"), timed=False)
    recorded = RecordedSource(
        "sums", front, {}, JournalConfig(folder=str(site.path / "journal"), keep=True)
    ).entries()
    assert any(entry.is_pledge for entry in entries) and recorded == [
        entry for entry in entries if entry.count
    ]


def _front(site: Site) -> FrontId:
    (folder,) = (site.path / "journal").rglob("front-*")
    return FrontId(int(folder.name.removeprefix("front-")))


def _journalled(site: Site) -> list[Entry]:
    (folder,) = (site.path / "journal").rglob("front-*")
    return everything(folder.parent, _front(site))


@pytest.mark.parametrize(
    "role", ["worker", *(pytest.param(role, marks=pytest.mark.slow) for role in ("standby", "coordinator"))]
)
def test_a_drill_kills_and_the_audit_is_clean(site: Site, role: str) -> None:
    site.write("{rate: 1000}")
    run = site.start()
    site.running()
    code, answer = site.ask("drill", "job.yaml", "--kill", role, "--times", "2", "--after", "0.3")
    assert code == ExitCode.OK, answer
    assert (answer["phase"], answer["reason"], answer["done"]) == ("Passed", "Clean", 2)
    assert [fault["seen"] for fault in answer["faults"]] == ["gone", "gone"]
    assert all(fault["outputGapMs"] is not None and fault["gapResolutionMs"] for fault in answer["faults"])
    assert answer["audit"]["clean"] and answer["audit"]["epoch"] >= answer["epoch"] > 0
    run.send_signal(signal.SIGTERM)
    assert ended(run)[0] == ExitCode.OK
    assert site.audit()["clean"]


def test_a_drill_of_a_job_that_has_completed_or_stopped_or_never_ran_proves_nothing(site: Site) -> None:
    site.write("{count: 500}")
    code, answer = site.ask("drill", "job.yaml")
    assert (code, answer["reason"]) == (ExitCode.USAGE, "JobNotFound")
    assert ended(site.start())[0] == ExitCode.OK
    code, answer = site.ask("drill", "job.yaml", "--times", "3")
    assert (code, answer["phase"], answer["reason"], answer["done"]) == (
        ExitCode.UNPROVEN,
        "Inconclusive",
        "Completed",
        0,
    )


@pytest.mark.slow
def test_a_drill_of_an_idle_job_kills_nobody(site: Site) -> None:
    """Its source waits for files that do not come."""
    (site.path / "lines").mkdir()
    site.write("{}")
    text = (site.path / "job.yaml").read_text().replace("generator: {}", "files: {path: lines, follow: true}")
    (site.path / "job.yaml").write_text(text + "  journal: {folder: journal, keep: true}\n")
    run = site.start()
    site.running(epoch=0)
    before = site.status()["pids"]
    code, answer = site.ask("drill", "job.yaml")
    assert (code, answer["phase"], answer["reason"], answer["done"]) == (
        ExitCode.UNPROVEN,
        "Inconclusive",
        "Idle",
        0,
    )
    assert site.status()["pids"] == before
    run.send_signal(signal.SIGTERM)
    assert ended(run)[0] == ExitCode.OK


def test_a_drill_of_output_that_cannot_be_read_back_is_refused_first_or_measures_the_gap(site: Site) -> None:
    with ConsumerServer() as consumer:
        site.write("{rate: 500}")
        text = (
            (site.path / "job.yaml")
            .read_text()
            .replace("files: {path: out, fsync: false}", f"socket: {{address: '{consumer.address}'}}")
        )
        (site.path / "job.yaml").write_text(text)
        run = site.start()
        before = site.running()
        code, answer = site.ask("drill", "job.yaml")
        assert (code, answer["reason"], answer["done"]) == (ExitCode.UNPROVEN, "NotAudited", 0)
        assert (site.live_status() or {})["attempt"] == before["attempt"], "nobody was killed"
        code, answer = site.ask("drill", "job.yaml", "--no-audit", "--kill", "coordinator", "--after", "0.3")
        assert (code, answer["reason"], answer["done"]) == (ExitCode.UNPROVEN, "NotAudited", 1)
        fault = answer["faults"][0]
        assert fault["outputGapMs"] is not None, (
            "the workers tell the next coordinator what the last one knew"
        )
        assert (fault["seen"], fault["gapResolutionMs"]) == ("gone", 100)
        run.send_signal(signal.SIGTERM)
        assert ended(run)[0] == ExitCode.OK


def test_a_second_instance_is_refused_and_named(site: Site) -> None:
    site.write("{rate: 100}")
    first = site.start()
    site.running()
    second = site.start()
    _, err = second.communicate(timeout=60)
    assert second.returncode == ExitCode.ALREADY_RUNNING
    assert f"'sums' is already run by process {first.pid}" in err
    assert site.status()["running"]


def test_status_names_the_processes_and_says_when_the_coordinator_is_down(site: Site) -> None:
    site.write("{rate: 100}")
    run = site.start()
    site.running()
    status = site.status()
    assert (status["running"], status["coordinator_alive"], status["processes"]["launcher"]) == (
        True,
        True,
        run.pid,
    )
    assert len(status["pids"]) == 3
    coordinator = status["processes"]["coordinator"]
    suspend(coordinator)
    try:
        down = eventually(
            lambda: None if (now := site.status())["coordinator_alive"] else now,
            "status notices a silent coordinator",
        )
        assert "the coordinator is down" in down["state"]
    finally:
        os.kill(coordinator, signal.SIGCONT)


def test_a_launcher_that_is_killed_takes_everything_with_it(site: Site) -> None:
    site.write("{rate: 500}")
    run = site.start()
    site.running()
    status = site.status()
    processes = [
        *status["pids"].values(),
        status["processes"]["coordinator"],
        status["processes"]["zookeeper"],
    ]
    kill(run.pid)
    run.wait()
    eventually(
        lambda: not any(alive(pid) for pid in processes), "everything that the launcher started is gone"
    )
    assert "was cut off" in site.status()["state"]
    again = site.start()
    site.running(attempt=status["status"]["attempt"] + 1)
    again.send_signal(signal.SIGTERM)
    assert ended(again)[0] == ExitCode.OK
    assert site.audit()["clean"]


def test_a_function_that_raises_fails_the_job_and_is_named(site: Site) -> None:
    site.write("{count: 1000}", fails_at=700)
    code, answer = ended(site.start())
    assert (code, answer["outcome"], answer["category"]) == (ExitCode.JOB_FAILED, "failed", "user")
    assert "sums.number" in answer["message"]
    assert "no 700" in answer["message"]
    audit = site.audit()
    assert audit["clean"], audit


def test_snapshots_are_listed_and_a_damaged_segment_is_found(site: Site) -> None:
    site.write("{count: 1000}")
    assert ended(site.start())[0] == ExitCode.OK
    _, found = site.ask("snapshots", "list", "job.yaml")
    newest = found[-1]["epoch"]
    code, shown = site.ask("snapshots", "show", "job.yaml", str(newest))
    assert (code, shown["epoch"], shown["job"]) == (ExitCode.OK, newest, "sums")
    code, verified = site.ask("snapshots", "verify", "job.yaml")
    assert (code, verified["problems"]) == (ExitCode.OK, [])
    segment = shown["segments"][0]["name"]
    file = site.path / "snapshots" / segment
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.chmod(0o600)
    file.write_bytes(data)
    code, verified = site.ask("snapshots", "verify", "job.yaml")
    assert code == ExitCode.CORRUPT
    assert segment in verified["problems"][0]
