"""A user's hash or stream, against the entries that the reference's results come to.

A hash has the last value of each name; a stream an entry for each result, those of a slot in their order.
Entries are read with the commands that any client has, as bytes: a text is there as it is, everything else as
JSON.

Keeps: of a stream that is trimmed, the oldest entries may be gone. Does not: write; use what the sink writes
with (connectors/redis/entries.py). Memory: both sides. What changes while it is read may be seen or not.
"""

import json
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flamestream.connectors.kit.plain_values import BUNDLE, HEX, form, form_of_text, plain, short, value_of
from flamestream.connectors.kit.server import ServerAway
from flamestream.connectors.kit.standing import (
    ALL,
    Findings,
    Line,
    Span,
    Version,
    Wanted,
    in_any_order,
    in_order,
    replaced,
)
from flamestream.connectors.redis.connector import RedisSinkSpec
from flamestream.connectors.redis.server import Server
from flamestream.model.errors import UserError

PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class EntriesPlace:
    """A sink's hash or stream, as the manifest has it."""

    spec: RedisSinkSpec
    sink: str

    def look(self) -> "Entries":
        """Raises UserError if the entries cannot be read."""
        # Who only reads needs no promise, and no right to ask for it (CONFIG GET).
        server = Server(self.spec.url, self.spec.password_file, "flamestream-audit", durable=False)
        try:
            server.connected()
            if self.spec.form == "hash":
                # HSCAN may give an entry twice while the hash grows: a dict has it once.
                return Entries(self, server.where, list(dict(_scanned(server, self.spec.key)).items()), [])
            return Entries(self, server.where, [], list(_ranged(server, self.spec.key)))
        except ServerAway as error:
            raise UserError(str(error)) from error
        finally:
            server.hang_up()


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries that were there: names and values of a hash, or a stream's ids with their fields."""

    place: EntriesPlace
    where: str
    values: Sequence[tuple[bytes, bytes]]
    stream: Sequence[tuple[str, Mapping[str, bytes]]]
    newest: None = None

    def compared(self, wanted: Sequence[Wanted], span: Span = ALL) -> Findings:
        """Raises UserError if the reference's results have not the parts that the manifest names."""
        spec = self.place.spec
        findings = Findings(f"{spec.form} {spec.key} of {self.where}", span=span)
        if BUNDLE in (*spec.names, *spec.sources.values()):
            findings.unknown.append(f"{BUNDLE}: which results went together is not the reference's to say")
        return self._of_hash(findings, wanted) if spec.form == "hash" else self._of_stream(findings, wanted)

    # --- a hash ---------------------------------------------------------------------------------------------

    def _of_hash(self, findings: Findings, wanted: Sequence[Wanted]) -> Findings:
        (source,) = self.place.spec.sources.values()
        values = [value_of(source, item, self.place.sink) for item in wanted]
        text = _Text(source, values)
        if BUNDLE in self.place.spec.names:
            findings.unknown.append("which entry is whose: they are named by bundles")
            lines = [
                Line(item.slot, text.wanted(value), short(value), item.due)
                for item, value in zip(wanted, values, strict=True)
            ]
            return in_any_order(findings, lines, ((text.found(data), short(data)) for _, data in self.values))
        versions: dict[Hashable, list[Version]] = defaultdict(list)
        for item, value in zip(wanted, values, strict=True):
            name = b":".join(
                _text_of(part, value_of(part, item, self.place.sink)) for part in self.place.spec.names
            )
            versions[name].append(Version(text.wanted(value), short(value), item.due, _named(name)))
        found = (
            (name, Version(text.found(data), short(data), True, _named(name))) for name, data in self.values
        )
        return replaced(findings, versions, found)

    # --- a stream -------------------------------------------------------------------------------------------

    def _of_stream(self, findings: Findings, wanted: Sequence[Wanted]) -> Findings:
        sources = {name: source for name, source in self.place.spec.sources.items() if source != BUNDLE}
        columns = {
            name: [value_of(source, item, self.place.sink) for item in wanted]
            for name, source in sources.items()
        }
        texts = {name: _Text(source, columns[name]) for name, source in sources.items()}
        lines = []
        for number, item in enumerate(wanted):
            values = {name: column[number] for name, column in columns.items()}
            entry = frozenset((name, texts[name].wanted(value)) for name, value in values.items())
            lines.append(Line(item.slot, entry, f"entry {short(values)}", item.due))
        entries = [
            (self._entry(fields, texts), f"entry {name} {short(fields)}") for name, fields in self.stream
        ]
        most = self.place.spec.max_length
        if most is not None:
            findings.unknown.append(
                f"which of a slot's oldest entries were there: about {most} are kept (max_length)"
            )
        return in_order(findings, lines, entries, trimmed=most is not None and len(entries) >= most)

    def _entry(self, fields: Mapping[str, bytes], texts: Mapping[str, "_Text"]) -> Hashable:
        known = {name: texts[name].found(data) if name in texts else data for name, data in fields.items()}
        return frozenset(
            (name, made) for name, made in known.items() if self.place.spec.sources.get(name) != BUNDLE
        )


class _Text:
    """The form of one field's values: text or bytes as they are if all are so, else JSON."""

    def __init__(self, source: str, values: Sequence[Any]) -> None:
        self._source = source
        self._as_it_is = all(isinstance(value, str | bytes) for value in values)

    def wanted(self, value: Any) -> Hashable:
        data = _text_of(self._source, value)
        if self._as_it_is or isinstance(value, str | bytes):
            return self.found(data)
        return form(plain(value, HEX))

    def found(self, data: bytes) -> Hashable:
        return data if self._as_it_is else form_of_text(data)


def _text_of(source: str, value: Any) -> bytes:
    if source == "$meta":
        return bytes(value).hex().encode()
    if isinstance(value, bytes):
        return value
    return (
        value.encode()
        if isinstance(value, str)
        else json.dumps(plain(value, HEX), separators=(",", ":"), ensure_ascii=False).encode()
    )


def _named(name: bytes) -> str:
    return f"entry {name.decode(errors='backslashreplace')!r}"


def _scanned(server: Server, key: str) -> Iterator[tuple[bytes, bytes]]:
    cursor = b"0"
    while True:
        cursor, parts = server.call("HSCAN", key, cursor, "COUNT", PAGE)
        parts = [part for pair in parts.items() for part in pair] if isinstance(parts, dict) else parts
        yield from zip(parts[::2], parts[1::2], strict=True)
        if int(cursor) == 0:
            return


def _ranged(server: Server, key: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    start = "-"
    while page := server.call("XRANGE", key, start, "+", "COUNT", PAGE):
        for name, fields in page:
            yield (
                name.decode(),
                {
                    key.decode(errors="backslashreplace"): data
                    for key, data in zip(fields[::2], fields[1::2], strict=True)
                },
            )
        start = f"({page[-1][0].decode()}"
