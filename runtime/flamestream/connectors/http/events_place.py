"""The place of an events sink: the events that its clients are given, now and when they come back, against
the reference.

What a client did receive is known to the client alone. What is known is what the sink gives whoever comes:
every event from the beginning, and behind an id exactly what followed it. So a client that keeps the last id
has, and will have, each event once. The text of the stream is made by the sink, as for any client, and read
here by the rules of server-sent events.

A client that kept what it was sent (`curl -N .../events > received.txt`) can have that compared: `received`.

Does not: dial the job's workers, which may have ended.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from flamestream.connectors.http import events as events_sink
from flamestream.connectors.kit.plain_values import HEX, form, plain, short
from flamestream.connectors.kit.standing import ALL, Findings, Line, Span, Wanted, in_order
from flamestream.fenced.tail import Cursor, Tail
from flamestream.model.decoding import DecodeError, from_json

RETURNS: Final = 16
"""Ids, evenly spread, behind which a client comes back."""


class Event(NamedTuple):
    """An event as a client has it."""

    id: str
    data: str


@dataclass(frozen=True, slots=True)
class EventsPlace:
    """The folder of an events sink."""

    root: Path

    def look(self) -> "GivenEvents":
        """The events that a client is given now, each time it comes."""
        given = list(self._given(""))
        findings = Findings(f"events of {self.root}")
        findings.unknown.append(
            "what clients received: they alone know; this is what one is given that comes, or comes back"
        )
        for number in range(0, len(given), max(1, len(given) // RETURNS)):
            self._come_back(findings, given[number].id, given[number + 1 :])
        return GivenEvents(findings, given)

    def _come_back(self, findings: Findings, last: str, wanted: Sequence[Event]) -> None:
        again = list(self._given(last))
        differs = next(
            (number for number, event in enumerate(wanted) if again[number : number + 1] != [event]), None
        )
        if differs is not None:
            told = short(wanted[differs])
            findings.add("lost", f"a client that comes back with {last} is not given {told} in its turn")

    def _given(self, last: str) -> Iterator[Event]:
        tail = Tail(self.root, Cursor.parse(last) if last else Cursor())
        while given := tail.next(4096):
            yield from parsed(events_sink.text_of(given).decode())


@dataclass(frozen=True, slots=True)
class GivenEvents:
    """The events that a client was given, and what was wrong when it came back."""

    findings: Findings
    given: Sequence[Event]
    newest: None = None

    def compared(self, wanted: Sequence[Wanted], span: Span = ALL) -> Findings:
        """All of it, against the reference."""
        self.findings.span = span
        return received(self.findings, wanted, self.given)


def received(findings: Findings, wanted: Sequence[Wanted], events: Iterable[Event]) -> Findings:
    """The difference between a client's events and the reference's: each event once, those of a slot in their
    order."""
    lines = [
        Line(item.slot, form(plain(item.payload, HEX)), f"event {short(item.payload)}", item.due)
        for item in wanted
    ]
    return in_order(
        findings, lines, ((_form(event), f"event {event.id} with {short(event.data)}") for event in events)
    )


def parsed(text: str) -> Iterator[Event]:
    """The events of a stream's text; comments and what has no data are none."""
    last = ""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = [line.partition(":") for line in block.split("\n") if line and not line.startswith(":")]
        data = [value.removeprefix(" ") for name, _, value in fields if name == "data"]
        last = next((value.removeprefix(" ") for name, _, value in reversed(fields) if name == "id"), last)
        kinds = [value for name, _, value in fields if name == "event"]
        if data and not kinds:
            yield Event(last, "\n".join(data))


def _form(event: Event) -> Hashable:
    try:
        return form(from_json(event.data))
    except DecodeError:
        return event.data
