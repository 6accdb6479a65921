"""helm upgrades the release before to today's, with its image and its chart, while jobs run: definitions, rights, one
Lease that becomes two, and new pods for every job."""

from collections.abc import Callable, Iterator

import pytest
import yaml

from e2e.conftest import flowing
from e2e.support.installation import CHART, IMAGE, RELEASE, SYSTEM, Installation, install, uninstall
from e2e.support.kube import Kube, Object, until
from e2e.support.predecessor import IMAGE as OLD_IMAGE
from e2e.support.predecessor import predecessor
from e2e.support.stream import Stream
from e2e.test_planned import ROLL_WITHIN, generation_of, rolled
from e2e.test_scale import in_each_shard, is_coordinated, led_by_two

pytestmark = pytest.mark.skipif(
    not OLD_IMAGE, reason="E2E_PREDECESSOR_IMAGE names no image of the release before"
)
Report = Callable[..., None]


@pytest.fixture(scope="module")
def before(namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The release before, and nothing of today's but what outlives a release."""
    uninstall()
    yield install(namespace, release=predecessor(tmp_path_factory.mktemp("predecessor")))
    install(namespace)  # for the modules behind this one, which look at one leader


@pytest.fixture(scope="module")
def jobs(before: Installation, kube: Kube) -> Iterator[list[Stream]]:
    """A job in each shard of two that there will be, with a consumer each."""
    first, second = in_each_shard(kube, before)
    with flowing(first, 240), flowing(second, 240):
        yield [first, second]


def test_an_upgrade_of_the_chart_costs_running_jobs_no_item(
    jobs: list[Stream], before: Installation, kube: Kube, report: Report
) -> None:
    assert images_of(jobs) == {OLD_IMAGE}
    since, old = [each.state()["now"] for each in jobs], [generation_of(each) for each in jobs]
    install(kube.namespace, shards=2)
    until("two lead", lambda: led_by_two(before), 120)
    for each, workers in zip(jobs, old, strict=True):
        rolled(each, workers)
        each.wait_ready(ROLL_WITHIN)
        each.wait_flowing(120)
    assert images_of(jobs) == {IMAGE}
    for shard, (each, moment) in enumerate(zip(jobs, since, strict=True)):
        gap, verdict = each.ask(f"/gap?since={moment}"), each.ask("/audit")
        figures = {name: verdict[name] for name in ("clean", "items", "documents")}
        report(
            f"chart upgraded: job of shard {shard}", gap_ms=gap["gap_ms"], **figures, longest=gap["longest"]
        )
        assert verdict["clean"], verdict


def test_definitions_and_rights_are_todays(jobs: list[Stream], kube: Kube) -> None:
    for file in (CHART / "files").glob("*.yaml"):
        wanted = yaml.safe_load(file.read_text())
        there = kube.get("CustomResourceDefinition", wanted["metadata"]["name"])
        assert there is not None and schemas(there) == schemas(wanted)
    role = Kube(SYSTEM).get("Role", f"{RELEASE}-operator-own")
    assert role is not None
    (leases,) = [rule for rule in role["rules"] if rule["resources"] == ["leases"]]
    assert "list" in leases["verbs"], "a leader looks how the jobs are divided"


def test_who_leads_now_recovers_jobs_that_began_before(jobs: list[Stream]) -> None:
    for each in jobs:
        is_coordinated(each)


def schemas(definition: Object) -> list[Object]:
    """Of what users write, by version."""
    versions = definition["spec"]["versions"]
    return [each["schema"]["openAPIV3Schema"]["properties"]["spec"] for each in versions]


def images_of(jobs: list[Stream]) -> set[str]:
    """Of the pods of all workers."""
    return {pod["spec"]["containers"][0]["image"] for each in jobs for pod in each.workers()}
