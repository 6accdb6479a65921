"""`kubectl flamestream` through a `kubectl` that answers from a table and notes what it was asked."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from flamestream.cli.kubectl import cluster
from flamestream.cli.kubectl import main as plugin
from flamestream.job.drills.left_audit import ANNOTATION, LONGEST, LeftAudit, read_left, written_left
from flamestream.job.drills.status import AuditResult
from flamestream.model.errors import Retryable

KUBECTL = """#!{python}
import json, os, sys
words = [word for word in sys.argv[1:]]
table = json.load(open(os.environ["ANSWERS"]))
with open(os.environ["ANSWERS"] + ".asked", "a") as asked:
    asked.write(" ".join(words) + "\\n")
if "create" in words:
    open(os.environ["ANSWERS"] + ".made", "w").write(sys.stdin.read())
for key, answer in table.items():
    if key in " ".join(words):
        print(answer if isinstance(answer, str) else json.dumps(answer))
        break
else:
    sys.exit("Error from server (NotFound)")
"""
JOB: dict[str, Any] = {
    "metadata": {"name": "j", "namespace": "n", "uid": "u"}, "apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamJob",
    "spec": {"sinks": {"index": {"files": {}}}, "sources": {"docs": {"files": {}}}, "application": {"file": "j.py", "graph": "g"}},
    "status": {"phase": "Running", "preflight": {"state": "Passed", "code": "c"}, "suspension": {"epoch": 7, "cut": "1", "outputs": 2},
               "conditions": [{"type": "Running", "status": "True"}, {"type": "Checkpointing", "status": "True", "reason": "InTime"}]},
}  # fmt: skip
LABELS = {"flamestream.dev/role": "driver", "flamestream.dev/job": "j"}
POD = {
    "metadata": {"name": "j-driver-a-1", "labels": LABELS, "namespace": "n"}, "status": {"phase": "Running"},
    "spec": {"containers": [{"name": "driver", "image": "i", "env": [], "volumeMounts": []}], "volumes": []},
}  # fmt: skip
ENDED = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}
VERDICT = {
    **dict.fromkeys(("lost", "doubled", "reordered", "foreign", "misplaced", "notDue", "records", "delivered"), 0),
    "clean": True, "bounds": "", "input": "", "firstDifference": "",
}  # fmt: skip
SNAPSHOT = {"metadata": {"name": "s"}, "status": {"phase": "Completed", "epoch": 7, "size": 9}}
DRILL = {
    "metadata": {"name": "d"},
    "status": {"phase": "Passed", "reason": "Clean", "message": "", "faults": []},
}


class Kubectl:
    """What it answers is changed by tests; what it was asked, a line a call."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "answers"
        program = folder / "kubectl"
        program.write_text(KUBECTL.format(python=sys.executable))
        program.chmod(0o755)

    def answers(self, **table: Any) -> None:
        """By a part of the command line; the first that fits counts."""
        self._file.write_text(json.dumps({key.replace("__", " "): value for key, value in table.items()}))

    @property
    def asked(self) -> list[str]:
        return Path(f"{self._file}.asked").read_text().splitlines()

    @property
    def made(self) -> dict[str, Any]:
        """The newest object that was created."""
        found: dict[str, Any] = json.loads(Path(f"{self._file}.made").read_text())
        return found


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANSWERS", str(tmp_path / "answers"))
    return Kubectl(tmp_path)


def typed(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        plugin.main(words)
    assert ended.value.code == 0


COMMANDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "upgrade": (["j"], {"flamestreamjobs": JOB}),
    "list": ([], {"flamestreamjobs": {"items": [JOB]}}),
    "status": (["j"], {"pods": {"items": [POD]}, "leases": {"items": []}, "flamestreamjobs": JOB}),
    "suspend": (["j"], {"patch": "ok", "wait": "ok", "flamestreamjobs": JOB}),
    "resume": (["j"], {"patch": "ok", "flamestreamjobs": JOB}),
    "savepoint": (["j"], {"create": SNAPSHOT, "wait": "ok", "flamestreamsnapshots": SNAPSHOT}),
    "drill": (["j"], {"create": DRILL, "flamestreamjobs": JOB, "flamestreamdrills": json.dumps(DRILL, indent=1)}),
    "logs": (["j"], {"logs": "2026-01-01T00:00:00Z a line", "pods": {"items": [POD]}}),
    "audit": (["j"], {"create": POD, "flamestreamjobs": JOB, "logs": json.dumps(VERDICT), "get pods": {"items": [POD]},
                      "get configmaps": {"items": []}, "get pod": {**POD, "status": ENDED}, "delete": "ok"}),
    "query": (["j", "seen[7]"], {"create": POD, "flamestreamjobs": JOB, "logs": '{"time": "7", "rows": [{"state": 3}]}',
                                 "get pods": {"items": [POD]}, "get pod": {**POD, "status": ENDED}, "delete": "ok"}),
    "trace": (["j", "north"], {"create": POD, "flamestreamjobs": JOB, "logs": '{"traced": []}', "get pods": {"items": [POD]},
                               "get pod": {**POD, "status": ENDED}, "delete": "ok"}),
    "cat": (["index", "j"], {"create": POD, "flamestreamjobs": JOB, "logs": '{"payload": 1}', "get pods": {"items": [POD]},
                             "get pod": {**POD, "status": ENDED}, "delete": "ok"}),
}  # fmt: skip


def test_every_command_is_in_the_table() -> None:
    assert {
        command.name or command.callback.__name__
        for command in plugin.app.registered_commands
        if command.callback
    } == {*COMMANDS, "watch"}, "test_kubectl_query.py has a port for that"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_answers_with_json_and_nothing_else(
    kubectl: Kubectl, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    words, answers = COMMANDS[name]
    kubectl.answers(**answers)
    typed(name, *words, "--json")
    said = capsys.readouterr().out.splitlines()
    assert said
    for line in said:
        json.loads(line)


def test_an_audit_leaves_its_verdict_at_the_job(kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> None:
    """For who looks at the cluster's page; who may not write there is told the verdict all the same."""
    words, answers = COMMANDS["audit"]
    kubectl.answers(patch="ok", **answers)
    typed("audit", *words)
    (patch,) = [line for line in kubectl.asked if line.startswith("patch ")]
    text = json.loads(patch[patch.index("{") :])["metadata"]["annotations"][ANNOTATION]
    left = read_left(text)
    assert left is not None and left.audit.clean and 0 < left.began <= left.ended


def test_an_audit_by_definitions_is_asked_of_the_pod_printed_and_left(
    kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    words, answers = COMMANDS["audit"]
    rows = [
        {
            "definition": 5,
            "name": "consistent output",
            "printed": "holds",
            "strict": "",
            "reason": "for 2 of 2 outputs",
        },
        {"definition": 6, "name": "exactly-once", "printed": "holds", "strict": "holds", "reason": ""},
    ]
    kubectl.answers(patch="ok", **{**answers, "logs": json.dumps(VERDICT | {"definitions": rows})})
    typed("audit", *words, "--definitions")
    told = capsys.readouterr().out.splitlines()
    assert told[-3:-1] == [
        "definition 5   consistent output   holds for 2 of 2 outputs",
        "definition 6   exactly-once        holds; strict: holds",
    ]
    assert kubectl.made["spec"]["containers"][0]["command"][-1] == "--definitions"
    (patch,) = [line for line in kubectl.asked if line.startswith("patch ")]
    left = read_left(json.loads(patch[patch.index("{") :])["metadata"]["annotations"][ANNOTATION])
    assert left is not None and [row.definition for row in left.audit.definitions] == [5, 6]


def test_a_long_difference_is_left_in_short() -> None:
    audit = AuditResult(clean=False, lost=3, first_difference="\U0001f600" * 5000, bounds="b" * 5000)
    text = written_left(LeftAudit(began=1, ended=2, audit=audit))
    left = read_left(text)
    assert len(text.encode()) <= LONGEST and left is not None
    assert (left.audit.lost, left.audit.first_difference[:5]) == (3, "\U0001f600" * 5)


def test_a_kubectl_that_does_not_end_is_a_cluster_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "TIMEOUT", 0.1)
    with pytest.raises(Retryable, match="the cluster does not answer"):
        cluster.Cluster(program="sleep").run("60")
