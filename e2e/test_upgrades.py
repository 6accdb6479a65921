"""A changed application: tried in a pod beside the stream, which goes on if the new code does not load or the
snapshot does not fit it."""

from collections.abc import Iterator

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.job import ROOT
from e2e.support.kube import Kube, Object, condition_of

CODE = (ROOT / "examples" / "inverted_index.py").read_text()


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
    line = "    positions: dict[str, list[int]] = {}\n"
    broken = CODE.replace(line, f"    raise ValueError('not this one')\n{line}")
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
