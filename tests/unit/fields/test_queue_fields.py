"""What docs/operations/operator.md says of queues, of groups that start together, and of where pods stand is in the
pods that a job gets: the driver's, the executors' by their template, and the one by which a quota is tried.

Each example is read from the page as it stands there, so neither it nor the pods change alone.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamestream_operator.objects.pods import build_driver_pod, build_executor_template, build_trial_pod
from unit.operator.test_objects import a_launch, all_pods

Object = dict[str, Any]
PAGE = (Path(__file__).parents[3] / "docs" / "operations" / "operator.md").read_text()
SECTION = PAGE.partition("## Where its pods stand")[2].partition("\n## ")[0]
SCHEDULERS = ("Kueue", "Volcano", "YuniKorn", "coscheduling plugin")
MARKS = ("labels", "annotations")


def written(row: str) -> Object:
    """What a row has a user write in `spec.pods`; what is of a PodGroup is not."""
    code = [each for each in re.findall(r"`(\w+: [^`]*)`", row) if not each.startswith("minMember")]
    found: Object = yaml.safe_load("{" + ", ".join(code) + "}")
    return found


def rows() -> list[tuple[str, Object]]:
    """Those of both tables, by their scheduler."""
    found = re.findall(rf"^\| ({'|'.join(SCHEDULERS)}) \| (.*) \|$", SECTION, re.MULTILINE)
    return [(name, written(row)) for name, row in found]


def block() -> Object:
    """The example of workers over zones."""
    found: Object = yaml.safe_load(SECTION.partition("```yaml\n")[2].partition("```")[0])["pods"]
    return found


def marks_of(pod: Object) -> Object:
    """Labels and annotations but ours."""
    return {
        kind: {
            name: value for name, value in pod["metadata"].get(kind, {}).items() if "flamestream" not in name
        }
        for kind in MARKS
    }


def asked(pods: Object, role: str) -> Object:
    """Labels and annotations that a user has asked for, of pods of this role."""
    return {kind: {**pods.get(kind, {}), **pods.get(role, {}).get(kind, {})} for kind in MARKS}


def test_both_tables_are_read() -> None:
    assert [name for name, _ in rows()] == [
        *("Kueue", "Volcano", "YuniKorn"), *("Volcano", "coscheduling plugin", "YuniKorn", "Kueue")
    ]  # fmt: skip
    assert all(pods for _, pods in rows())


@pytest.mark.parametrize(("scheduler", "pods"), rows())
def test_a_queue_or_group_of_the_page_is_in_the_pods_of_its_role_and_no_other(
    scheduler: str, pods: Object
) -> None:
    launch = a_launch(pods=pods)
    driver, workers = build_driver_pod(launch), [build_executor_template(launch), build_trial_pod(launch)]
    common = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by"}
    for pod, role in ((driver, "driver"), *((pod, "workers") for pod in workers)):
        told = marks_of(pod)
        told["labels"] = {name: value for name, value in told["labels"].items() if name not in common}
        assert told == asked(pods, role)
        assert pod["spec"].get("schedulerName") == pods.get("schedulerName")


@pytest.mark.parametrize(("scheduler", "pods"), rows())
def test_what_reads_beside_a_job_is_in_none_of_its_groups_and_has_its_scheduler(
    scheduler: str, pods: Object
) -> None:
    """A pod more than the group counts would wait for ever, or have another one wait."""
    marks = {name for role in ("driver", "workers") for kind in MARKS for name in asked(pods, role)[kind]}
    for pod in all_pods(a_launch(pods=pods))[3:]:
        assert not marks & {name for kind in MARKS for name in pod["metadata"].get(kind, {})}
        assert pod["spec"].get("schedulerName") == pods.get("schedulerName")


def test_spread_and_priority_are_in_every_pod_of_a_job() -> None:
    spread = block()["topologySpreadConstraints"]
    for pod in all_pods(a_launch(pods={**block(), "priorityClassName": "high"})):
        assert pod["spec"]["topologySpreadConstraints"] == spread
        assert pod["spec"]["priorityClassName"] == "high"


def test_the_spread_of_the_page_counts_workers_by_labels_that_they_have() -> None:
    (constraint,) = block()["topologySpreadConstraints"]
    wanted = constraint["labelSelector"]["matchLabels"] | {"flamestream.dev/job": "j"}
    launch = a_launch(pods=block())
    assert wanted.items() <= build_executor_template(launch)["metadata"]["labels"].items()
    assert not wanted.items() <= build_driver_pod(launch)["metadata"]["labels"].items()
