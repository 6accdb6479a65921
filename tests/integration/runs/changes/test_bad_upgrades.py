"""Upgrades that cannot be: each is refused with what to do, and the job runs on as if nobody had asked. And some that
could be taken for such."""

import json
import os
import re
import signal
import threading
from collections.abc import Iterator

import pytest

from flamestream.job.exit_codes import ExitCode
from support.eventually import eventually
from support.runs.scratch import SMALL, Scratch

APPLICATION = """\
import flamestream as fs

RATE = {rate}

def priced(n):
    {line}
    return n * RATE

graph = fs.Graph("{graph}")
graph.source("numbers").map(priced).reduce(
    name="{name}", key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n
).sink("sums", key=lambda total: total % 5)
"""
GOOD = {"rate": 1, "line": "pass", "graph": "sums", "name": "sums"}


class Job:
    """One that runs."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        source = "sources: {numbers: {generator: {count: 1000000, rate: 200}}}"
        scratch.job(self.code(), source, "sinks: {sums: {files: {path: out, fsync: false}}}", *SMALL)
        self.manifest = (scratch.path / "job.yaml").read_text()
        self.run = scratch.begin("run", "job.yaml", "--no-spark", "--drain")
        scratch.goes_on()

    @staticmethod
    def code(**changes: object) -> str:
        return APPLICATION.format(**{**GOOD, **changes})

    def upgraded(self, text: str, manifest: str = "") -> tuple[int, str]:
        self.scratch.write("app.py", text)
        self.scratch.write("job.yaml", manifest or self.manifest)
        said = self.scratch.type("upgrade", "job.yaml")
        return said.code, said.text


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    scratch = Scratch(tmp_path_factory.mktemp("bad"))
    made = Job(scratch)
    yield made
    made.run.send_signal(signal.SIGINT)
    said, _ = made.run.communicate(timeout=60)
    assert "drained" in said, said
    made.scratch.write("app.py", Job.code())
    audit = json.loads(scratch.type("audit", "job.yaml", "--json").text)
    assert audit["clean"] and audit["verdict"]["delivered"], "whatever was asked for"
    scratch.close()


NOT_THERE = "import a_package_that_is_not_there\n"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (Job.code() + "def (", ExitCode.JOB_FAILED, "app.py"),
        (NOT_THERE + Job.code(), ExitCode.JOB_FAILED, "a_package_that_is_not_there"),
        (Job.code(name="other"), ExitCode.JOB_FAILED, "has state of operation 'sums'"),
    ],
    ids=["no Python", "a package that is not there", "a state less"],
)
def test_code_that_cannot_go_on_is_refused(job: Job, text: str, code: int, said: str) -> None:
    before = job.scratch.status()["code"]
    assert job.upgraded(text)[0] == code
    assert said in job.upgraded(text)[1]
    job.scratch.goes_on()
    assert job.scratch.status()["code"] == before


def test_a_graph_that_the_file_has_not_is_refused(job: Job) -> None:
    other = job.manifest.replace("graph: graph", "graph: another")
    code, said = job.upgraded(Job.code(rate=2), other)
    assert code == ExitCode.USAGE and "another" in said
    job.scratch.goes_on()


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("path: out", "path: elsewhere", "spec.sinks.sums"),
        ("limits:", "journal: {folder: elsewhere}\n  limits:", "spec.journal"),
        ("slots: 16", "slots: 32", "spec.workers.slots"),
    ],
)
def test_what_a_stream_that_runs_on_cannot_change_is_refused(
    job: Job, old: str, new: str, field: str
) -> None:
    assert old in job.manifest
    code, said = job.upgraded(Job.code(rate=2), job.manifest.replace(old, new))
    assert code == ExitCode.USAGE and field in said
    job.scratch.goes_on()


def test_other_keys_for_the_same_state_are_found_by_the_newest_records_and_refused(job: Job) -> None:
    """The old keys' state would be asked for by nobody."""
    code, said = job.upgraded(Job.code().replace("key=lambda n: n % 7", "key=lambda n: f'rest {n % 7}'"))
    assert code == ExitCode.JOB_FAILED and "operation 'sums' keeps its state by other keys" in said
    job.scratch.goes_on()


def test_code_that_raises_much_later_is_taken_back_and_may_not_come_again(job: Job) -> None:
    before = job.scratch.status()["code"]
    far = job.scratch.status()["items_in"] + 2_000  # long behind the tick
    failing = Job.code(rate=3, line=f"assert n < {far}, 'far'")
    untried = job.manifest + "  upgrade: {canary: 0}\n"  # else it is refused once its records are near
    assert job.upgraded(failing, untried)[0] == ExitCode.OK
    eventually(lambda: job.scratch.status()["code"] == before, "it is taken back", within=90)
    job.scratch.goes_on()
    code, said = job.upgraded(failing, untried)
    assert code == ExitCode.JOB_FAILED and "taken back" in said
    # The canary compares with the code that runs, not with what was taken back.
    code, said = job.upgraded(Job.code(rate=3, line="raise ValueError('always')"))
    assert code == ExitCode.JOB_FAILED and "new errors" in said


def test_of_two_edits_in_a_second_the_last_one_counts(job: Job) -> None:
    job.scratch.write("app.py", Job.code(rate=4))
    first = threading.Thread(target=job.scratch.type, args=("upgrade", "job.yaml"))
    first.start()
    code, said = job.upgraded(Job.code(rate=5))
    first.join()
    assert code == ExitCode.OK, said
    job.scratch.goes_on()
    assert "runs this code already" in job.upgraded(Job.code(rate=5))[1]


def test_an_edit_during_a_recovery_is_made_behind_it(job: Job) -> None:
    workers = (job.scratch.path / ".flamestream" / "job" / "workers").glob("*.json")
    newest = max(workers, key=lambda file: file.stat().st_mtime)
    os.kill(json.loads(newest.read_text())["pid"], signal.SIGKILL)
    code, said = job.upgraded(Job.code(rate=6))
    assert code == ExitCode.OK, said
    job.scratch.goes_on()


@pytest.mark.slow  # each way is one that others here go at each push
def test_a_way_back_is_an_upgrade_and_so_is_the_way_on_again(job: Job) -> None:
    for rate in (7, 6, 7):
        code, said = job.upgraded(Job.code(rate=rate))
        assert code == ExitCode.OK, said
    job.scratch.goes_on()


def test_a_graph_of_another_name_has_the_state_by_the_names_of_its_operations(job: Job) -> None:
    """A graph's own name says nothing about what its functions keep."""
    code, said = job.upgraded(Job.code(rate=7, graph="totals"))
    assert code == ExitCode.OK, said
    job.scratch.goes_on()


@pytest.mark.slow
def test_code_that_is_slower_than_the_stream_is_called_so_and_stays_if_it_does_not_fail(job: Job) -> None:
    """The canary's times are the reference interpreter's: they warn, and refuse nothing. Nor does the watch."""
    slow = Job.code(rate=9, line="__import__('time').sleep(0.02)")
    code, said = job.upgraded(slow, job.manifest + "  upgrade: {canary: 50, watch: 2s}\n")
    assert code == ExitCode.OK and "slower than the stream" in said, said
    its = job.scratch.status()["code"]
    eventually(lambda: not job.scratch.status()["watched"], "the watch is over", within=60)
    job.scratch.goes_on()
    assert job.scratch.status()["code"] == its and "taken back" not in json.dumps(job.scratch.status())
    assert job.upgraded(Job.code(rate=7))[0] == ExitCode.OK
    job.scratch.goes_on()


def test_code_that_would_lose_what_the_job_has_saved_since_is_refused(job: Job) -> None:
    """An old version, behind one with a state more."""
    more = Job.code(rate=8).replace(
        ".sink(", ".reduce(name='more', key=lambda n: n % 3, initial=int, combine=max).sink("
    )
    assert job.upgraded(more)[0] == ExitCode.OK
    job.scratch.goes_on()
    code, said = job.upgraded(Job.code(rate=7))
    assert code == ExitCode.JOB_FAILED and "has state of operation 'more'" in said
    dropped = job.manifest + "  upgrade: {drop: [more]}\n"
    code, said = job.upgraded(Job.code(rate=7), dropped)
    assert code == ExitCode.OK, said
    job.scratch.goes_on()


@pytest.mark.parametrize(
    ("rate", "workers", "takes_part"),
    [
        (8, "{replicas: 3, slots: 16}", 3),
        (9, "{min: 2, max: 2, slots: 16}", 2),
        (10, "{replicas: 1, slots: 16}", 1),
    ],
    ids=["more", "within other bounds", "fewer"],
)
def test_as_many_workers_take_part_as_the_new_manifest_says(
    job: Job, rate: int, workers: str, takes_part: int
) -> None:
    manifest = re.sub(r"workers: \{.*\}", f"workers: {workers}", job.manifest)
    assert manifest != job.manifest
    code, said = job.upgraded(Job.code(rate=rate, graph="totals"), manifest)
    assert code == ExitCode.OK, said
    eventually(lambda: len(job.scratch.status()["workers"]) == takes_part, "so many take part", within=60)
    assert job.scratch.status()["wanted"] == takes_part
    job.scratch.goes_on()


@pytest.mark.slow  # with fewer workers others here do so at each push
def test_spark_of_this_machine_has_room_for_many_more_workers_than_the_job_began_with(
    scratch: Scratch,
) -> None:
    source = "sources: {numbers: {generator: {rate: 100}}}"
    sink = "sinks: {sums: {files: {path: out, fsync: false}}}"
    one, seven = ([line.replace("replicas: 2", f"replicas: {count}") for line in SMALL] for count in (1, 7))
    scratch.job(Job.code(), source, sink, *one)
    run = scratch.begin("run", "job.yaml")
    scratch.goes_on()
    scratch.job(Job.code(rate=2), source, sink, *seven)
    said = scratch.type("upgrade", "job.yaml")
    assert said.code == ExitCode.OK, said.text
    eventually(lambda: len(scratch.status()["workers"]) == 7, "seven take part", within=60)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)


@pytest.mark.slow  # a minute: the simulator upgrades across migrations at each push
def test_code_from_before_a_migration_is_refused_and_the_state_stays_as_it_is(job: Job) -> None:
    """Once rows of a newer version are committed, older code would fold them on as what they are not: the last test
    of this job, since all that the others upgrade to is older."""
    migrated = Job.code(rate=7, name="sums").replace(
        "initial=int", "initial=int, version=2, migrate={1: abs}"
    )
    code, said = job.upgraded(migrated)
    assert code == ExitCode.OK, said
    job.scratch.goes_on()
    its = job.scratch.status()["code"]
    code, said = job.upgraded(Job.code(rate=6))
    assert code == ExitCode.JOB_FAILED and "there is no way back; start newer code" in said, said
    job.scratch.goes_on()
    assert job.scratch.status()["code"] == its
    job.scratch.write("app.py", migrated)
