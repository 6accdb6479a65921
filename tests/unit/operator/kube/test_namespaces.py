"""Which namespaces labels choose, and what is known of those that come and go."""

import asyncio
from typing import Any

import pytest

from flamestream.model.decoding import DecodeError, from_json
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.kube.lists import Lists
from flamestream_operator.kube.namespaces import LabelSelector, Namespaces
from flamestream_operator.objects.meta import JOB, Object

TEAM = LabelSelector(match_labels={"team": "a"})


def namespace(name: str, version: int = 1, **labels: str) -> Object:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version), "labels": labels}}


def thing(name: str, where: str, **labels: str) -> Object:
    meta = {
        "name": name,
        "namespace": where,
        "uid": f"{where}-{name}",
        "resourceVersion": "1",
        "labels": labels,
    }
    return {"metadata": meta, "spec": {}}


@pytest.mark.parametrize(
    ("selector", "labels", "chosen"),
    [
        ("{}", {}, True),
        ('{"matchLabels": {"team": "a"}}', {"team": "a", "stage": "live"}, True),
        ('{"matchLabels": {"team": "a", "stage": "live"}}', {"team": "a"}, False),
        ('{"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}', {"team": "b"}, True),
        ('{"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}', {}, False),
        ('{"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}', {"team": "a"}, False),
        ('{"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}', {}, True),
        ('{"matchExpressions": [{"key": "team", "operator": "Exists"}]}', {"team": ""}, True),
        ('{"matchExpressions": [{"key": "team", "operator": "Exists"}]}', {}, False),
        ('{"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}', {"team": ""}, False),
        ('{"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}', {"a": "1"}, False),
    ],
)  # fmt: skip
def test_a_selector_chooses_as_kubernetes_says(selector: str, labels: dict[str, str], chosen: bool) -> None:
    assert from_json(selector, LabelSelector).matches(labels) is chosen


@pytest.mark.parametrize("text", ['{"labels": {}}', '{"matchExpressions": [{"key": "a", "operator": "Gt"}]}'])
def test_a_selector_of_other_fields_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        from_json(text, LabelSelector)


def test_without_a_selector_every_namespace_is_chosen_and_complete() -> None:
    all_of_them = Namespaces()
    assert all_of_them.has("any") and all_of_them.is_complete("any") and not all_of_them.are_chosen


def test_a_namespace_is_chosen_from_its_label_on_and_let_go_without_it() -> None:
    known = Namespaces(TEAM)
    assert not known.has("one")
    assert not known.seen(namespace("one", 1), gone=False)
    assert known.seen(namespace("one", 2, team="a"), gone=False) and known.has("one")
    assert not known.seen(namespace("one", 2, team="a"), gone=False), "no news"
    assert not known.seen(namespace("one", 1), gone=False) and known.has("one"), "an old event"
    assert known.seen(namespace("one", 3, team="b"), gone=False) and not known.has("one")
    known.seen(namespace("one", 4, team="a"), gone=False)
    assert known.seen(namespace("one", 5, team="a"), gone=True) and not known.has("one")


def test_one_that_is_chosen_is_complete_once_it_was_listed_and_must_be_again_after_it_was_let_go() -> None:
    known = Namespaces(TEAM)
    known.seen(namespace("one", 1, team="a"), gone=False)
    assert not known.is_complete("one")
    known.listed({"one"})
    assert known.is_complete("one")
    known.seen(namespace("one", 2), gone=False)
    known.seen(namespace("one", 3, team="a"), gone=False)
    assert not known.is_complete("one")
    known.put_all([namespace("one", 4), namespace("two", 5, team="a")])
    known.listed({"one", "two"})
    assert known.is_complete("two") and not known.is_complete("one")


class Listed:
    """An API server that has these."""

    def __init__(self, **things: list[Object]) -> None:
        self.things = things

    async def list_all(self, kind: str, where: str | None, labels: Any = None) -> list[Object]:
        return [
            each for each in self.things.get(kind, []) if where in (None, each["metadata"].get("namespace"))
        ]


def known_of(api: Listed) -> tuple[Cluster, Namespaces, Lists]:
    namespaces = Namespaces(TEAM)
    cluster = Cluster(lambda job: namespaces.has(job[0]), namespaces.has)
    made: Any = api
    return cluster, namespaces, Lists(made, cluster, namespaces, drills=True)


def test_of_other_namespaces_nothing_is_kept() -> None:
    api = Listed(
        Namespace=[namespace("one", team="a"), namespace("two")],
        FlameStreamJob=[thing("j", "one"), thing("j", "two")],
        Pod=[thing("p", where, **{JOB: "j"}) for where in ("one", "two")],
    )
    cluster, namespaces, lists = known_of(api)
    asyncio.run(lists.replace_all(()))
    assert [each["metadata"]["namespace"] for each in cluster.jobs] == ["one"]
    assert cluster.pods_of(("one", "j")) and not cluster.pods_of(("two", "j"))
    assert namespaces.is_complete("one") and not namespaces.is_complete("two")


def test_what_a_namespace_has_is_known_when_it_is_chosen_and_again_after_it_was_let_go() -> None:
    api = Listed(
        FlameStreamJob=[thing("j", "one")],
        FlameStreamDrill=[thing("d", "one")],
        Pod=[thing("p", "one", **{JOB: "j"})],
    )
    cluster, namespaces, lists = known_of(api)
    for version in (1, 3):
        namespaces.put_all([namespace("one", version, team="a")])
        found = asyncio.run(lists.add("one"))
        assert found == [("jobs", ("one", "j")), ("drills", ("one", "d"))]
        assert cluster.pods_of(("one", "j")), "a job without its pods would seem to have lost them"
        namespaces.put_all([namespace("one", version + 1)])
        assert cluster.release("one") == [("one", "j")]
        assert not cluster.jobs.put(thing("j", "one")), "what was on its way to be written when it was let go"
        assert not len(cluster.jobs) and not len(cluster.drills) and not cluster.pods_of(("one", "j"))


def test_a_list_that_comes_after_a_namespace_was_let_go_brings_nothing() -> None:
    cluster, namespaces, lists = known_of(Listed(FlameStreamJob=[thing("j", "one")]))
    assert asyncio.run(lists.add("one")) == [] and not len(cluster.jobs) and not namespaces.is_complete("one")
