#!/usr/bin/env python3
"""A kubectl that has one job, `j`, and notes what it is asked: a line of JSON a call, in the file that CALLS
names."""

import json
import os
import sys

JOB = {
    "apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamJob",
    "metadata": {"name": "j", "namespace": "n", "uid": "u"},
    "spec": {
        "application": {"file": "j.py", "graph": "graph"}, "guarantee": "exactly-once",
        "sources": {"docs": {"files": {}}}, "sinks": {"index": {"files": {}}, "other": {"files": {}}},
    },
    "status": {
        "phase": "Running", "attempt": 3, "epoch": {"number": 7, "time": "2026-01-01T00:00:30Z"},
        "preflight": {"state": "Passed", "code": "c", "canary": {"summary": "canary: 7 results equal"}},
        "workers": {"summary": "2/2", "standby": 1, "desired": 2}, "message": "",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Running", "status": "True"}],
    },
}  # fmt: skip
DRIVER = {
    "metadata": {"name": "j-driver-a-1", "namespace": "n", "labels": {"flamestream.dev/role": "driver"}},
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "driver", "image": "i", "volumeMounts": []}],
        "volumes": [],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}],
    },
}
FAULT = {"victim": "w", "time": "t", "recoveredMs": 10.0, "recoveryMs": 5.0, "outputGapMs": 7.0}
VERDICT = {
    "clean": True,
    "complete": True,
    "empty": False,
    "epoch": 7,
    "bounds": "all",
    "input": "all",
    "firstDifference": "",
    **dict.fromkeys(
        ("records", "delivered", "lost", "doubled", "reordered", "foreign", "misplaced", "notDue"), 0
    ),
    "missingInput": 0,
    "unexpectedInput": 0,
    "time": "7",
    "rows": [{"key": "A", "state": 3}],
    "traced": [],
}
"""What a pod beside the job prints: of an audit, of a query, and of a look for an item."""


def answer(words: list[str], given: str) -> str:
    """What is printed."""
    verb, kind, name = (*words, "", "", "")[:3]
    if verb == "create":
        made = json.loads(given)
        made["metadata"].setdefault("name", made["metadata"].get("generateName", "") + "made")
        return json.dumps(made)
    if verb == "logs":
        return (
            json.dumps(VERDICT) if any("-look-" in word for word in words) else "2026-01-01T00:00:00Z a line"
        )
    if verb != "get":
        return ""
    if kind.startswith("flamestreamjobs"):
        return json.dumps(JOB if name == "j" else {"items": [JOB]})
    if kind.startswith("flamestreamdrills"):
        status = {
            "phase": "Passed",
            "reason": "Clean",
            "message": "3 results",
            "faults": [FAULT],
            "audit": VERDICT,
        }
        return json.dumps({"metadata": {"name": name}, "status": status}, indent=1)
    if kind.startswith("flamestreamsnapshots"):
        return json.dumps(
            {"metadata": {"name": name}, "status": {"phase": "Completed", "epoch": 7, "size": 10}}
        )
    if kind == "pods":
        return json.dumps({"items": [DRIVER]})
    if kind == "pod":
        return json.dumps(DRIVER)
    return json.dumps({"items": []})


def main() -> int:
    """The exit code."""
    words = sys.argv[1:]
    given = sys.stdin.read() if "-f" in words and "-" in words else ""
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(json.dumps([words, given]) + "\n")
    plain = list(words)
    for option in ("--context", "-n"):
        while option in plain:
            at = plain.index(option)
            del plain[at : at + 2]
    if plain[:2] == ["get", "flamestreamjobs.flamestream.dev"] and plain[2:3] == ["absent"]:
        sys.stderr.write("Error from server (NotFound): there is no absent\n")
        return 1
    sys.stdout.write(answer(plain, given) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
