"""A changed application: tried in a pod beside the stream, which goes on if the new code does not load or the
snapshot does not fit it."""

import json
from collections.abc import Iterator

import pytest

from e2e.conftest import fresh
from e2e.support import faults
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.job import ROOT
from e2e.support.kube import Kube, Object, condition_of, until

CODE = (ROOT / "examples" / "inverted_index.py").read_text()
LINE = "    positions: dict[str, list[int]] = {}\n"
"""Behind which a function's first line stands."""
WORD = "zyzzyva"
"""Stands in no document until a test writes it."""


@pytest.fixture(scope="module")
def job(installation: Installation, kube: Kube) -> Iterator[FolderJob]:
    made = FolderJob(kube, installation, fresh())
    made.start()
    yield made
    made.delete()


def workers(job: FolderJob) -> set[str]:
    return staying({pod["metadata"]["name"]: pod for pod in job.kube.list("Pod", job.selector("worker"))})


def staying(pods: dict[str, Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods.values() if "deletionTimestamp" not in pod["metadata"]}


def stable(job: FolderJob) -> set[str]:
    """Its workers, once the spec that runs is one that could be gone back to."""
    job.wait_ready()
    job.wait_status("lastStable")
    return workers(job)


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        ("a module that is missing", "import no_such_module\n" + CODE, "no_such_module"),
        ("a file that does not parse", CODE + "\ngraph = = 3\n", "syntax"),
        ("a sink that the manifest does not name", CODE + '\nindex.sink("second", key=word_of)\n', "second"),
        (
            "a graph that the snapshot does not fit",
            CODE.replace("postings.reduce(", 'postings.reduce(name="other", '),
            "no such operation",
        ),
    ],
    ids=lambda value: value if " " in str(value) and "\n" not in str(value) else "",
)
def test_code_that_cannot_go_on_costs_the_stream_nothing(
    job: FolderJob, what: str, code: str, words: str
) -> None:
    before = stable(job)
    job.kube.apply(job.application(code))
    told = job.wait_condition("Degraded", "RolledBack")
    assert words in told["message"].lower(), told
    job.wait_event("RolledBack")
    assert workers(job) == before, "the stream ran on"
    job.kube.apply(job.application(CODE))
    job.kube.wait(
        "FlameStreamJob", job.name, lambda it: condition_of(it, "Degraded").get("status") == "False", 60
    )
    assert workers(job) == before


def test_code_that_raises_is_taken_back_and_costs_the_stream_nothing(job: FolderJob) -> None:
    """Its trial cannot know: it loads, and its graph fits. A canary would find it."""
    before = stable(job)
    job.kube.patch("FlameStreamJob", job.name, {"spec": {"upgrade": {"canary": 0}}})
    broken = CODE.replace(LINE, f"    raise ValueError('not this one')\n{LINE}")
    assert broken != CODE
    job.kube.apply(job.application(broken))
    told = job.wait_condition("Degraded", "RolledBack", 240)
    assert "taken back" in told["message"] and "ValueError" in told["message"], told
    assert workers(job) >= before, "the workers of then have it again"
    job.kube.apply(job.application(CODE))
    job.kube.wait(
        "FlameStreamJob", job.name, lambda it: condition_of(it, "Degraded").get("status") == "False", 60
    )


def test_what_other_code_gives_is_shown_before_it_takes_over(job: FolderJob) -> None:
    """The canary's records are those behind the committed cut: at a longer interval there are some at any moment."""
    stable(job)
    its = {"checkpoint": {"interval": "10s"}, "upgrade": {"canary": 100, "watch": "1s"}}
    job.kube.patch("FlameStreamJob", job.name, {"spec": its})
    first = job.status()["run"]
    job.kube.apply(job.application(CODE.replace("len(postings))", "-len(postings))")))
    job.kube.wait("FlameStreamJob", job.name, lambda it: it["status"]["run"].get("next"), 240)
    shown = job.typed("upgrade", job.name, "--diff", code=3)
    assert "may take over" in shown and " 0 results equal, " in shown and "index, of record" in shown, shown
    job.kube.wait("FlameStreamJob", job.name, lambda it: it["status"]["run"]["code"] != first["code"], 240)
    job.kube.patch("FlameStreamJob", job.name, {"spec": {"checkpoint": {"interval": "1s"}}})
    job.kube.apply(job.application(CODE))
    job.kube.wait("FlameStreamJob", job.name, lambda it: it["status"]["run"]["code"] == first["code"], 300)


def test_an_edit_while_the_one_before_is_watched_waits_and_stops_nothing(job: FolderJob) -> None:
    stable(job)
    job.kube.patch("FlameStreamJob", job.name, {"spec": {"upgrade": {"canary": 0, "watch": "30s"}}})
    first = job.status()["run"]
    job.kube.apply(job.application(CODE + "\n# one\n"))
    job.kube.wait("FlameStreamJob", job.name, lambda it: it["status"]["run"].get("before"), 240)
    second = job.status()["run"]
    job.kube.apply(job.application(CODE + "\n# two\n"))

    def is_third(it: Object) -> bool:
        return it["status"]["run"]["code"] not in (first["code"], second["code"])

    job.kube.wait("FlameStreamJob", job.name, is_third, 300)
    assert job.status()["run"]["number"] == first["number"], "no stop between"
    job.kube.apply(job.application(CODE))
    job.kube.wait("FlameStreamJob", job.name, lambda it: it["status"]["run"]["code"] == first["code"], 300)


def watched(job: FolderJob, code: str, watch: str) -> Object:
    """Other code has taken over, and is watched for so long: the run's status."""
    stable(job)
    job.kube.patch("FlameStreamJob", job.name, {"spec": {"upgrade": {"canary": 0, "watch": watch}}})
    job.kube.apply(job.application(code))
    job.kube.wait("FlameStreamJob", job.name, lambda it: it["status"]["run"].get("before"), 240)
    return dict(job.status()["run"])


def another_leads(job: FolderJob) -> None:
    """The coordinator of the job is killed, and another one has begun."""
    leads = job.installation
    before = leads.life()
    faults.signal_process(leads.system, leads.leader(), "operator")
    until("another coordinator leads", lambda: leads.leader_pod() and leads.life() != before, 120)
    epoch = job.status()["epoch"]["number"]
    job.kube.wait("FlameStreamJob", job.name, lambda it: it["status"]["epoch"]["number"] >= epoch + 2, 120)


def test_a_watch_outlives_its_coordinator_and_takes_bad_code_back(job: FolderJob) -> None:
    """The code fails only behind the coordinator's death: who begins then has not made its tick."""
    first = stable(job) and job.status()["run"]["code"]
    bad = CODE.replace(LINE, f"    if {WORD!r} in document.text:\n        raise ValueError({WORD!r})\n{LINE}")
    assert bad != CODE
    run = watched(job, bad, "10m")
    another_leads(job)
    write = "import os, sys; open(sys.argv[1], 'w').write(sys.argv[3]); os.rename(*sys.argv[1:3])"
    folder = job.folder(job.name)
    writer = f"{job.name}-writer"
    job.kube.execute(writer, "python3", "-c", write, f"{folder}/word.txt", f"{folder}/docs/word.txt", WORD)
    told = job.wait_condition("Degraded", "RolledBack", 240)
    assert "taken back" in told["message"] and "ValueError" in told["message"], told
    assert job.status()["run"]["code"] == first != run["code"]
    job.kube.apply(job.application(CODE))
    job.kube.wait(
        "FlameStreamJob", job.name, lambda it: condition_of(it, "Degraded").get("status") == "False", 60
    )
    found = json.loads(job.typed("audit", job.name, "--json"))
    assert found["clean"] and len(found["codes"]) >= 3, found


def test_clean_code_stays_where_its_coordinator_dies_while_it_is_watched(job: FolderJob) -> None:
    run = watched(job, CODE + "\n# watched\n", "20s")
    another_leads(job)

    def is_stable(it: Object) -> bool:
        stable = it["status"].get("lastStable") or {}
        return bool(stable.get("code") == it["status"]["run"]["code"] == run["code"])

    job.kube.wait("FlameStreamJob", job.name, is_stable, 240)
    assert job.status()["run"]["number"] == run["number"], "no stop between"
    assert job.condition("Degraded").get("status") != "True"


def test_equivalent_code_goes_on_from_the_epoch_and_an_audit_names_the_change(job: FolderJob) -> None:
    before, epoch = stable(job), job.status()["epoch"]["number"]
    job.kube.apply(job.application(CODE + "\n# a comment more\n"))
    job.kube.watch(
        "Pod",
        lambda there: (now := staying(there)) and not now & before,
        120,
        selector=job.selector("worker"),
    )
    job.wait_ready()
    assert job.status()["epoch"]["number"] >= epoch
    status = job.drill("worker")
    assert (status["phase"], status["done"], status["faults"][0]["then"]) == ("Passed", 1, "output"), status
    assert status["audit"]["codes"][0]["digest"] != status["audit"]["codes"][-1]["digest"]
