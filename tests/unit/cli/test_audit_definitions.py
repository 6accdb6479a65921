"""`audit --definitions` and `audit --history`."""

import json
import re
from pathlib import Path

import pytest

from flamestream.audit import judged_history
from flamestream.job.exit_codes import ExitCode
from support.runs.job_folder import JobFolder
from unit.cli.test_audit_command import completed, deliver, run

SUMS = """\
import flamestream as fs

@fs.event
class Order:
    user: str
    cents: int

graph = fs.Graph("sums")
orders = graph.source("lines", decode=Order)
orders.reduce(
    key=lambda order: order.user,
    initial=int,
    combine=lambda cents, order: cents + order.cents,
    emit=lambda cents, order: fs.Map({"user": order.user, "cents": cents}),
).sink("shouts", key=lambda row: row["user"])
"""


@pytest.fixture(autouse=True)
def in_the_jobs_folder(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(job.path)


def came_in(user: str, cents: int, **more: object) -> dict[str, object]:
    return {"in": "lines", "value": json.dumps({"user": user, "cents": cents}), **more}


def came_out(user: str, cents: int, **more: object) -> dict[str, object]:
    return {"out": "shouts", "value": {"user": user, "cents": cents}, "key": user, **more}


GOOD = [
    came_in("ann", 1),
    came_in("bob", 2),
    came_out("bob", 2),
    came_in("ann", 3),
    came_out("ann", 1),
    came_out("ann", 4),
]
END: dict[str, object] = {"end": True}


def history(folder: Path, lines: list[dict[str, object]]) -> Path:
    (folder / "seen.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder / "seen.jsonl"


# --- a run of ours ------------------------------------------------------------------------------------------


def test_the_definitions_stand_behind_the_audit(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write()
    deliver(job)
    completed(job)
    assert run("audit", job.manifest, "--definitions") == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[3:] == [
        "definition 5   consistent output   holds for 3 of 3 outputs",
        "definition 6   exactly-once        holds; strict: holds",
        "definition 7   at-most-once        follows from 6",
        "definition 8   at-least-once       follows from 6",
        "definition 9   non-commutative     undecided: no key has two items that differ",
        "definition 10  deterministic       holds: 1 attempt delivered what the interpreter gives; 3 records "
        "interpreted twice gave the same",
        "As printed, definition 6 does not see lost output: a result may be under way for ever, in any order. "
        "Strict: nothing is skipped, and order is kept.",
    ]


def test_json_has_the_definitions_and_the_exit_code_is_the_audits(
    job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write()
    deliver(job, lambda items: items[:2])
    completed(job)
    assert run("audit", job.manifest, "--definitions", "--json") == ExitCode.DIFFERENCE
    six = json.loads(capsys.readouterr().out)["definitions"][1]
    assert (six["definition"], six["printed"], six["strict"]) == (6, "holds", "broken")
    assert run("audit", job.manifest, "--json") == ExitCode.DIFFERENCE
    assert "definitions" not in json.loads(capsys.readouterr().out)


# --- a history of another system ----------------------------------------------------------------------------


def test_a_history_that_keeps_the_guarantee(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write(SUMS)
    file = history(job.path, [*GOOD, END])
    assert run("audit", "--history", file, job.manifest) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        "3 records, 3 results; all results had to be there",
        "exactly-once: holds",
    ]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([*GOOD[:-1], END], '{"cents":4,"user":"ann"} was due, and never came'),
        (
            [*GOOD[:4], GOOD[5]],
            'line 5: {"cents":4,"user":"ann"} came where {"cents":1,"user":"ann"} was due, which never came',
        ),
        ([*GOOD, came_out("eve", 1)], 'line 7: {"cents":1,"user":"eve"}: nothing leads to it'),
    ],
)
def test_a_history_that_breaks_it(
    lines: list[dict[str, object]], says: str, job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write(SUMS)
    assert run("audit", "--history", history(job.path, lines), job.manifest) == ExitCode.DIFFERENCE
    assert capsys.readouterr().out.splitlines()[-1] == f"exactly-once: broken: {says}"


def test_the_jobs_guarantee_says_which_definition(job: JobFolder) -> None:
    """Ann's 3 is counted twice."""
    lines: list[dict[str, object]] = [*GOOD, {"crash": "a worker"}, {"recover": ""}, came_out("ann", 7), END]
    job.write(SUMS)
    assert run("audit", "--history", history(job.path, lines), job.manifest) == ExitCode.DIFFERENCE
    job.write(SUMS, guarantee="at-least-once")
    assert run("audit", "--history", history(job.path, lines), job.manifest) == ExitCode.OK


def test_a_history_with_the_table(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write(SUMS)
    file = history(job.path, [*GOOD, END])
    assert run("audit", "--history", file, job.manifest, "--definitions") == ExitCode.OK
    said = capsys.readouterr().out.splitlines()
    assert said[2] == "definition 5   consistent output   holds for 3 of 3 outputs"
    assert said[6].startswith("definition 9   non-commutative     holds: reduce 'application_")
    assert run("audit", "--history", file, job.manifest, "--definitions", "--json") == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["records"], len(found["definitions"])) == ("holds", 3, 6)


def test_partitions_may_be_merged_in_any_order(job: JobFolder) -> None:
    job.write(SUMS)
    other = [
        came_in("ann", 1, partition=0),
        came_in("ann", 3, partition=1),
        came_out("ann", 3),
        came_out("ann", 4),
    ]
    assert run("audit", "--history", history(job.path, [*other, END]), job.manifest) == ExitCode.OK
    one = [came_in("ann", 1), came_in("ann", 3), came_out("ann", 3), came_out("ann", 4)]
    assert run("audit", "--history", history(job.path, [*one, END]), job.manifest) == ExitCode.DIFFERENCE


def test_a_search_at_its_bound_proves_nothing(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write(SUMS)
    judge = judged_history.judged_history
    monkeypatch.setattr(judged_history, "judged_history", lambda checked, path: judge(checked, path, 0))
    lines = [*(came_in("ann", 2**place, partition=place) for place in range(8))]
    lines += [came_out("ann", 128), came_out("ann", 129)]
    assert run("audit", "--history", history(job.path, lines), job.manifest) == ExitCode.UNPROVEN
    assert capsys.readouterr().out.endswith(
        "exactly-once: undecided: the search of 1 key reached its bound\n"
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "seen.jsonl:1: .*a line is JSON like"),
        ('{"in": "lines"}', "seen.jsonl:1: 'in' wants a value"),
        ('{"value": 1}', "a line has one of in, out, crash, recover, end; this has none"),
        ('{"in": "lines", "out": "shouts", "value": 1}', "this has in and out"),
        ('{"in": "orders", "value": 1}', "seen.jsonl:1: the job has no source 'orders'; it has lines"),
        ('{"out": "x", "value": 1}', "seen.jsonl:1: the graph has no sink 'x'; it has shouts"),
        ('{"out": "shouts", "value": 1, "partition": 0}', "'partition' says nothing beside 'out'"),
        ('{"out": "shouts", "value": 1, "id": 0}', "unknown field `id`"),
        ('{"end": true}\n{"end": true}', "seen.jsonl:2: line 1 says that everything had come out"),
        (
            '{"out": "shouts", "value": 1}\n{"out": "shouts", "value": 1, "key": 2}',
            "seen.jsonl:2: a result of 'shouts' with a key, though the one in line 1 has none",
        ),
        (
            '{"in": "lines", "value": "{}"}',
            "seen.jsonl:1: a history is judged by functions that fail for none",
        ),
    ],
)
def test_a_bad_line_is_told_with_its_number(
    line: str, says: str, job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write(SUMS)
    (job.path / "seen.jsonl").write_text(f"{line}\n")
    assert run("audit", "--history", job.path / "seen.jsonl", job.manifest) == ExitCode.JOB_FAILED
    said = capsys.readouterr().err
    assert re.search(says, said), said


def test_a_file_that_is_not_there(job: JobFolder, capsys: pytest.CaptureFixture[str]) -> None:
    job.write(SUMS)
    assert run("audit", "--history", "none.jsonl", job.manifest) == ExitCode.JOB_FAILED
    assert "none.jsonl cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (
            'graph.source("lines").map(fs.at(lambda text, at: at.time)).sink("shouts")',
            "asks when a record arrived",
        ),
    ],
)
def test_what_a_history_does_not_say_is_refused(
    graph: str, says: str, job: JobFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write(f'import flamestream as fs\n\ngraph = fs.Graph("g")\n{graph}\n')
    assert run("audit", "--history", history(job.path, []), job.manifest) == ExitCode.JOB_FAILED
    assert says in capsys.readouterr().err
