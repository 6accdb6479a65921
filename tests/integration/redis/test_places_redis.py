"""The audit of a user's hash or stream, on a real server: whatever is done to an entry by hand is found, and
named."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("redis")  # an extra

from flamestream.connectors.redis import entries as redis_entries
from flamestream.testing.port_driver import PortDriver
from support.places.redis_places import raw
from support.places.standing import Outside, differs, results
from support.redis import RedisServer, redis_server


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as made:
        yield made


class Counts(Outside):
    """A hash or stream of counts."""

    def __init__(self, server: RedisServer, **settings: Any) -> None:
        self.server, self.name = server, f"k{uuid4().hex}"
        super().__init__({"redis": {"url": server.url, "key": self.name, **settings}})

    def call(self, *command: Any) -> Any:
        return self.server.call(*(self.name if part == "KEY" else part for part in command))

    def entries(self) -> list[tuple[str, list[str]]]:
        """Of a stream."""
        return raw(self.call("XRANGE", "KEY", "-", "+"))

    def write(self, entries: list[tuple[str, list[str]]]) -> None:
        """Another stream in its place."""
        self.call("DEL", "KEY")
        for _, parts in entries:
            self.call("XADD", "KEY", "*", *parts)


def hash_of(server: RedisServer, **settings: Any) -> Counts:
    return Counts(server, **{"form": "hash", "field": "word", **settings})


def stream_of(server: RedisServer, **settings: Any) -> Counts:
    return Counts(server, form="stream", fields=["word", "count", "lines", "share"], **settings)


BE = '{"word":"be","count":%d,"lines":[0,0,1,2],"share":0.5}'
ENTRIES: dict[str, tuple[tuple[str, ...], *tuple[str, ...]]] = {
    "deleted": (("HDEL", "KEY", "be"), "lost", "entry 'be'"),
    "changed": (("HSET", "KEY", "be", BE % 7), "changed", "entry 'be'", '"count":7'),
    "of another type": (("HSET", "KEY", "be", BE.replace("%d", '"4"')), "changed", "entry 'be'"),
    "no JSON": (("HSET", "KEY", "be", "4, that is"), "changed", "4, that is"),
    "added": (("HSET", "KEY", "was", BE % 1), "foreign", "entry 'was'"),
}


@pytest.mark.parametrize("damage", ENTRIES)
def test_what_is_done_to_an_entry_of_a_hash(server: RedisServer, driver: PortDriver, damage: str) -> None:
    place = hash_of(server)
    place.deliver(driver)
    assert place.compared().clean, place.compared()
    command, *named = ENTRIES[damage]
    place.call(*command)
    differs(place.compared(), *named)


def test_an_entry_with_an_older_value_is_said_to_have_one(server: RedisServer, driver: PortDriver) -> None:
    place = hash_of(server, value="count")
    place.deliver(driver)
    assert place.compared().clean
    place.call("HSET", "KEY", "be", "3")
    differs(place.compared(), "changed", "an older value")


def test_entries_may_be_named_by_several_parts(server: RedisServer, driver: PortDriver) -> None:
    place = hash_of(server, field=["word", "count"], value="$meta")
    place.deliver(driver)
    assert place.compared().clean, place.compared()
    place.call("HDEL", "KEY", "be:2")
    differs(place.compared(), "lost", "be:2")


def test_entries_that_are_named_by_bundles_are_compared_without_their_names(
    server: RedisServer, driver: PortDriver
) -> None:
    place = hash_of(server, field=["word", "$bundle", "count"])
    place.deliver(driver)
    findings = place.compared()
    assert findings.clean, findings
    assert findings.unknown
    place.call("HDEL", "KEY", "be:1:2")
    differs(place.compared(), "lost")


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda entries: entries[1:], "lost"),
        (lambda entries: entries[:-1], "lost"),
        (lambda entries: entries[:4] + entries[5:], "lost"),
        (lambda entries: [*entries, entries[-1]], "doubled"),
        (
            lambda entries: [*entries, ("", ["word", "be", "count", "5", "lines", "[]", "share", "0"])],
            "foreign",
        ),
        (lambda entries: [*entries, ("", [*entries[0][1], "more", "x"])], "foreign"),
    ],
    ids=["first", "last", "middle", "twice", "another", "another field"],
)
def test_what_is_done_to_a_stream(server: RedisServer, driver: PortDriver, damage: Any, kind: str) -> None:
    place = stream_of(server)
    place.deliver(driver)
    entries = place.entries()
    assert (place.compared().clean, len(entries)) == (True, len(results())), place.compared()
    place.write(damage(entries))
    differs(place.compared(), kind)


def test_two_entries_of_a_slot_in_the_wrong_order(server: RedisServer, driver: PortDriver) -> None:
    place = stream_of(server)
    place.deliver(driver)
    entries = place.entries()
    of_be = [number for number, (_, parts) in enumerate(entries) if parts[1] == "be"]
    first, second = of_be[0], of_be[1]
    entries[first], entries[second] = entries[second], entries[first]
    place.write(entries)
    differs(place.compared(), "reordered")


def test_entries_of_different_slots_have_no_order(server: RedisServer, driver: PortDriver) -> None:
    place = stream_of(server)
    place.deliver(driver)
    slots = {item.payload.word: item.slot for item in results()}
    place.write(sorted(place.entries(), key=lambda entry: -slots[entry[1][1]]))
    assert place.compared().clean


def test_of_a_stream_that_is_trimmed_the_oldest_may_be_gone(server: RedisServer, driver: PortDriver) -> None:
    place = stream_of(server, max_length=4)
    place.deliver(driver)
    entries = place.entries()
    place.write(entries[-6:])
    findings = place.compared()
    assert findings.clean, findings
    assert any("max_length" in text for text in findings.unknown)
    place.write(entries[-3:])
    assert place.compared().counts.keys() == {"lost"}


def test_what_is_not_due_may_be_there_and_need_not(server: RedisServer, driver: PortDriver) -> None:
    place = stream_of(server)
    place.deliver(driver, lambda items: items[:5])
    wanted = results()
    assert place.compared([item._replace(due=number < 5) for number, item in enumerate(wanted)]).clean
    findings = place.compared([item._replace(due=number < 6) for number, item in enumerate(wanted)])
    assert (findings.counts, findings.not_due) == ({"lost": 1}, len(wanted) - 6)


@pytest.mark.parametrize("form", ["hash", "stream"])
def test_a_mistake_in_how_entries_are_written_is_seen(
    server: RedisServer, driver: PortDriver, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    right = redis_entries.text
    monkeypatch.setattr(redis_entries, "text", lambda value: right(value).replace(b"0.5", b"0.25"))
    place = hash_of(server) if form == "hash" else stream_of(server)
    place.deliver(driver)
    assert not place.compared().clean


def test_what_is_at_the_key_of_another_kind_is_said(server: RedisServer, driver: PortDriver) -> None:
    place = hash_of(server)
    place.deliver(driver)
    place.call("DEL", "KEY")
    place.call("SET", "KEY", "x")
    from flamestream.model.errors import UserError

    with pytest.raises(UserError, match="WRONGTYPE"):
        place.compared()
