"""Specs of sinks, and the sinks that cannot fence."""

import pytest

from flamestream.connectors import sinks
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed, SinkOpened
from flamestream.model.errors import ManifestError, UserError
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.quoted import plain
from flamestream.testing.consumer_contract import SINK, bundle, fence
from flamestream.testing.port_driver import PortDriver

SEEN: list[list[tuple[bytes, object]]] = []


def see(items: list[tuple[bytes, object]]) -> None:
    if items[0][1] == "bad":
        raise ValueError("cannot take it")
    SEEN.append(items)


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"files": {}}, "spec.sinks.out.files: Object missing required field `path`"),
        (
            {"files": {"path": "a", "sync": True}},
            "spec.sinks.out.files: Object contains unknown field `sync`",
        ),
        ({"files": {"path": "a", "fsync": "yes"}}, "spec.sinks.out.files.fsync: Expected `bool`, got `str`"),
        ({"socket": {"address": ":1"}}, "spec.sinks.out.socket: an address is host:port"),
        ({"discard": {"x": 1}}, "spec.sinks.out.discard: Object contains unknown field `x`"),
        ([], "spec.sinks.out: expected a mapping"),
    ],
)
def test_errors_begin_with_the_place(spec: object, place: str) -> None:
    with pytest.raises(ManifestError) as error:
        sinks.describe(spec, "spec.sinks.out")
    assert str(error.value).startswith(place)


@pytest.mark.parametrize("function", ["nothing", "no.such:thing", "os:nothing", "os:sep", "os.path:"])
def test_a_function_that_is_none_is_named(function: str) -> None:
    with PortDriver() as driver, pytest.raises(ManifestError, match=r"spec.sinks.out.callback.function: "):
        sinks.build(
            {"callback": {"function": function}}, SINK, WorkerId("w"), "job", driver.post, driver.reactor
        )


def test_only_sinks_that_keep_last_bundles_can_fence() -> None:
    assert sinks.describe({"files": {"path": "a"}}).fences
    assert sinks.describe({"socket": {"address": "a:1"}}).fences
    for spec in ({"callback": {"function": "a:b"}}, {"discard": None}):
        traits = sinks.describe(spec, "spec.sinks.out")
        assert not traits.fences
        assert traits.refusal.startswith("spec.sinks.out: a ")
        assert "Choose a `files`, `rolling`, `socket`, `kafka`, `postgres` or `redis` sink" in traits.refusal


def test_a_sink_that_keeps_nothing_cannot_be_read_back() -> None:
    with pytest.raises(UserError, match=r"spec.sinks.out: only a `files`, `rolling` or `kafka` sink"):
        sinks.read({"discard": {}}, "spec.sinks.out")


def test_the_callback_gets_each_bundle_and_its_exception_fails_the_sink() -> None:
    with PortDriver() as driver:
        consumer = sinks.build(
            {"callback": {"function": f"{__name__}:see"}},
            SINK,
            WorkerId("w"),
            "job",
            driver.post,
            driver.reactor,
        )
        consumer.open(OpenSink(fence(1), SINK, [Slot(0)]))
        assert driver.take(SinkOpened).last == {}
        consumer.deliver(Deliver(fence(1), SINK, 1, [bundle(0, 1, "good"), bundle(1, 1, "better")]))
        assert driver.take(BundlesAcknowledged).number == 1
        consumer.deliver(Deliver(fence(1), SINK, 2, [bundle(0, 2, "bad")]))
        failed = driver.take(SinkFailed)
    assert [value for items in SEEN for _, value in items] == ["good", "better"]
    assert failed.category == "user"
    assert f"{__name__}.see raised ValueError: cannot take it (slot 0)" in plain(failed.message)


def test_discard_acknowledges() -> None:
    with PortDriver() as driver:
        consumer = sinks.build({"discard": {}}, SINK, WorkerId("w"), "job", driver.post, driver.reactor)
        consumer.deliver(Deliver(fence(1), SINK, 7, [bundle(0, 1)]))
        assert driver.take(BundlesAcknowledged).number == 7
