"""The outside of a core cluster: journals, sinks, segments, sources and links, which do what a worker asks.

Keeps: a sink refuses an older fence, and takes bundles in sequence. Does not: decide when an answer is heard
(core_cluster.py).
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.chain import Row, chains_of
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.core.worker.worker import Worker
from flamestream.model import payload as codec
from flamestream.model.ids import Fence, Offset, Partition, SequenceNumber, Slot, WorkerId
from support.core.core_outcome import Outcome, Sink

P = Partition("")


class Outside(Outcome):
    """Carries out what workers ask; answers to them wait in a queue for each worker."""

    fence: Fence
    workers: dict[WorkerId, Worker]
    told: list[tuple[WorkerId, msg.ToCoordinator]]
    segments: dict[str, Sequence[Row]]
    spoil: Callable[[msg.Frame], list[msg.Frame]]
    _waiting: list[tuple[WorkerId, act.Action]]
    _answers: dict[WorkerId, deque[ev.Event]]
    _links: dict[tuple[WorkerId, WorkerId], deque[msg.Frame]]

    def _carry_out(self, name: WorkerId, action: act.Action) -> None:
        match action:
            case act.ToldCoordinator():
                self.told.append((name, action.message))
            case act.ToPeer():
                if action.peer in self.workers:
                    self._links.setdefault((name, action.peer), deque()).extend(self.spoil(action.frame))
            case act.Follow():
                source = self.sources[action.front]
                source.follower, source.fence, source.grant, source.told_end = name, action.fence, 0, False
                source.next = action.offsets.get(P, Offset(0))
            case act.Pull():
                self.sources[action.front].grant = action.records
            case act.Wake():
                self._answers[name].append(ev.Woken())
            case act.LinkPeers() | act.TrimJournal() | act.Saved() | act.Exit():
                pass
            case _:
                self._waiting.append((name, action))

    def _answer(self, name: WorkerId, action: Any) -> None:
        """Do it and answer."""
        match action:
            case act.Append():
                if action.fence == self.fence:
                    self.journals[action.front].append(action.entry)
                    self._post(name, ev.JournalAppended(action.fence, action.front, action.entry.time))
            case act.SealJournal():
                entries = [entry for entry in self.journals[action.front] if entry.time >= action.cut]
                self._post(name, ev.JournalSealed(action.fence, action.front, entries))
            case act.ReadRun():
                records = self.sources[action.front].records[
                    action.entry.first : action.entry.first + action.entry.count
                ]
                self._post(name, ev.RunRead(action.fence, action.front, action.entry, records))
            case act.Upload():
                rows = [*(row for ref in action.compact for row in self.segments[ref.name]), *action.rows]
                stored, held = (
                    self._stored(name, action, rows),
                    [self._stored(f"held-{name}", action, action.held)] if action.held else [],
                )
                self._post(
                    name,
                    ev.Uploaded(
                        action.fence, action.epoch, [stored], [ref.name for ref in action.compact], held
                    ),
                )
            case act.Load():
                rows = self._rows(action.segments, action.slots, action.after)
                kept = [row for ref in action.held for row in self.segments[ref.name]]
                self._post(name, ev.Loaded(action.fence, chains_of(rows), chains_of(kept)))
            case act.Prefetch():
                rows = self._rows(action.segments, action.slots, action.after)
                self._post(name, ev.Prefetched(action.number, chains_of(rows)))
            case _:
                self._answer_of_a_sink(name, action)

    def _rows(self, segments: Sequence[SegmentRef], slots: Collection[Slot] | None, after: int) -> list[Row]:
        return [
            row
            for ref in segments
            for row in self.segments[ref.name]
            if (slots is None or row.slot in slots) and row.epoch > after
        ]

    def _stored(self, name: str, action: act.Upload, rows: Sequence[Row]) -> SegmentRef:
        ref = SegmentRef(
            f"{action.epoch}-{action.fence.attempt}-{name}",
            1,
            "",
            len(rows),
            tuple(sorted({row.slot for row in rows})),
        )
        assert ref.name not in self.segments, f"{ref.name} is written twice"
        self.segments[ref.name] = rows
        return ref

    def _answer_of_a_sink(self, name: WorkerId, action: act.OpenSink | act.Deliver) -> None:
        sink = self.sinks[action.sink]
        slots = (
            action.slots if isinstance(action, act.OpenSink) else [bundle.slot for bundle in action.bundles]
        )
        if any(sink.opened.get(slot, action.fence) > action.fence for slot in slots):
            self._post(name, ev.SinkFenced(action.fence, action.sink))
        elif isinstance(action, act.OpenSink):
            sink.opened.update(dict.fromkeys(slots, action.fence))
            self._post(
                name,
                ev.SinkOpened(
                    action.fence, action.sink, {slot: sink.last[slot] for slot in slots if slot in sink.last}
                ),
            )
        else:
            for bundle in action.bundles:
                self._take(sink, bundle)
            self._post(name, ev.BundlesAcknowledged(action.fence, action.sink, action.number))

    def _take(self, sink: Sink, bundle: act.Bundle) -> None:
        last = sink.last.get(bundle.slot)
        assert bundle.sequence == (1 if last is None else last.sequence + 1), (
            f"slot {bundle.slot}: {bundle.sequence} after {last}"
        )
        items = [(meta, codec.encode(payload)) for meta, payload in codec.decode_items(bundle.items)]
        sink.taken.setdefault(bundle.slot, []).extend(items)
        sink.last[bundle.slot] = ev.LastBundle(SequenceNumber(bundle.sequence), bundle.t_last, bundle.items)

    def _post(self, name: WorkerId, event: ev.Event) -> None:
        self._answers[name].append(event)
