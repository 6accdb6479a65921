"""The audit of events: of what a real client was sent, and of what any client is given now.

The client reads HTTP and server-sent events by itself (support/http/events.py); what it recorded is then
damaged.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flamestream.connectors.http import events as events_sink
from flamestream.connectors.http.events_place import Event, parsed, received
from flamestream.connectors.kit.standing import Findings
from flamestream.fenced.tail import Cursor
from flamestream.model.payloads.plain import plain
from flamestream.testing.port_driver import PortDriver
from support.http.events import EventSource
from support.places.standing import Outside, differs, results
from support.ports import free_port

Recorded = list[Event]
SLOT_OF = {item.payload.word: item.slot for item in results()}


class Counts(Outside):
    """Events of counts, and a client that has them all."""

    def __init__(self, folder: Path) -> None:
        self.port, self.root = free_port(), folder / "out"
        super().__init__(
            {
                "events": {
                    "path": str(self.root),
                    "listen": f"127.0.0.1:{self.port}",
                    "fsync": False,
                    "poll_ms": 1,
                }
            }
        )

    def recorded(self, driver: PortDriver, count: int, last: str = "") -> Recorded:
        """What a client is sent, until it has so many."""
        with EventSource(self.port, last=last) as source:
            driver.until(lambda: len(source.data) >= count, f"{count} events, not {source.data}")
            return [Event(name, json.dumps(data)) for name, data in zip(source.ids, source.data, strict=True)]


def audited(events: Recorded) -> Findings:
    return received(Findings("what a client has"), results(), events)


def word(event: Event) -> str:
    return str(json.loads(event.data)["word"])


def swapped(events: Recorded) -> Recorded:
    first, second = [number for number, event in enumerate(events) if word(event) == "be"][:2]
    made = list(events)
    made[first], made[second] = made[second], made[first]
    return made


def changed(events: Recorded) -> Recorded:
    return [Event(events[0].id, events[0].data.replace('"count": 1', '"count": 7')), *events[1:]]


DAMAGES: dict[str, tuple[Callable[[Recorded], Recorded], dict[str, int]]] = {
    "nothing": (list, {}),
    "other slots first": (lambda events: sorted(events, key=lambda event: SLOT_OF[word(event)]), {}),
    "the first was not received": (lambda events: events[1:], {"lost": 1}),
    "the last was not received": (lambda events: events[:-1], {"lost": 1}),
    "a gap": (lambda events: events[:4] + events[6:], {"lost": 2}),
    "received twice": (lambda events: [*events[:3], *events[2:]], {"doubled": 1}),
    "two of a slot are swapped": (swapped, {"reordered": 1}),
    "a wrong value": (changed, {"foreign": 1, "lost": 1}),
    "of somebody else": (lambda events: [*events, Event("x", '{"word": "was"}')], {"foreign": 1}),
    "no JSON": (lambda events: [*events, Event("x", "was")], {"foreign": 1}),
    "nothing at all": (lambda events: [], {"lost": len(results())}),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    with PortDriver() as driver:
        place = Counts(tmp_path_factory.mktemp("events"))
        wanted = place.deliver(driver)
        return place.recorded(driver, len(wanted))


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_a_client_recorded_is_compared(recorded: Recorded, damage: str) -> None:
    change, counts = DAMAGES[damage]
    assert audited(change(recorded)).counts == counts


def test_a_client_that_was_cut_off_and_came_back_has_each_event_once(
    driver: PortDriver, tmp_path: Path
) -> None:
    place = Counts(tmp_path)
    half = len(results()) // 2
    place.deliver(driver)
    first = place.recorded(driver, half)[:half]
    assert audited(first + place.recorded(driver, len(results()) - half, first[-1].id)).clean


def test_what_any_client_is_given_is_the_reference(driver: PortDriver, tmp_path: Path) -> None:
    place = Counts(tmp_path)
    place.deliver(driver)
    findings = place.compared()
    assert (findings.clean, findings.stands) == (True, len(results())), findings
    assert "they alone know" in findings.unknown[0]
    lacking = results()
    assert place.compared(lacking[1:]).counts == {"foreign": 1}


def test_what_was_not_delivered_is_not_given(driver: PortDriver, tmp_path: Path) -> None:
    place = Counts(tmp_path)
    place.deliver(driver, lambda items: items[:-1])
    differs(place.compared(), "lost")


def test_a_mistake_in_the_text_of_events_is_seen(
    driver: PortDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Counts(tmp_path)
    place.deliver(driver)
    right = plain
    monkeypatch.setattr(events_sink, "plain", lambda payload: {**right(payload), "count": 0})
    assert not place.compared().clean


def test_ids_that_do_not_go_on_where_they_were_are_seen(
    driver: PortDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event comes once to who stays, and a client that comes back misses some."""
    place = Counts(tmp_path)
    place.deliver(driver)
    right = Cursor.__str__

    def too_far(cursor: Cursor) -> str:
        for part in cursor.places.values():
            if part.items:
                part.items += 1
                text = right(cursor)
                part.items -= 1
                return text
        return right(cursor)

    monkeypatch.setattr(Cursor, "__str__", too_far)
    findings = place.compared()
    assert findings.counts.keys() == {"lost"}
    assert "a client that comes back" in findings.examples[0]


def test_the_rules_of_server_sent_events() -> None:
    text = (
        ': hello\n\nretry: 200\n\nid: 1\ndata: {"a":\ndata: 1}\n\nid: 2\n\nevent: problem\ndata: '
        '"x"\n\ndata:3\r\n\r\n'
    )
    assert list(parsed(text)) == [Event("1", '{"a":\n1}'), Event("2", "3")]
