"""One worker of the core alone: its outside answers at once, and what it did is written down."""

from collections.abc import Callable
from typing import Any

import flamestream as fs
from flamestream.core.dataflow.parts import Parts
from flamestream.core.protocol import actions, events, messages
from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.worker.worker import Worker
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    Offset,
    Partition,
    SinkName,
    SourceName,
    WorkerId,
)
from flamestream.model.layout import Assignment, Layout
from flamestream.model.time import START, FrontId, Instant, Timestamp

ME, FRONT, FENCE = WorkerId("w"), FrontId(0), Fence(Attempt(1), LayoutVersion(1))


class OneWorker:
    """One worker alone, whose outside answers at once; what it did is written down."""

    def __init__(self, graph: fs.Graph, parts: Parts, debug: bool, **changes: Any) -> None:
        fronts = (FrontSettings(FRONT, SourceName("docs"), timed=False),)
        settings = WorkerSettings("j", 16, fronts, dead_letter=SinkName("dead"), debug=debug, **changes)
        self.worker = Worker(ME, graph.validated(), settings, parts)
        self.done: list[actions.Action] = []
        self.rows: list[Row] = []
        self._answers: list[events.Event] = []
        self._now = 0
        assignment = Assignment(FENCE, Layout(LayoutVersion(1), (ME,) * 16, (ME,), ME))
        self.tell(messages.Recover(assignment, {ME: ""}, "", START, Epoch(0), None))
        self.tell(messages.Seal(FENCE))
        self.tell(messages.Replay(FENCE, START))

    def tell(self, message: messages.ToWorker) -> None:
        self.run([events.FromCoordinator(message)])

    def run(self, todo: list[events.Event]) -> None:
        self.turn(*todo)
        while self._answers:
            self.turn()

    def turn(self, *more: events.Event) -> None:
        """One pass over what was answered and what comes besides."""
        todo, self._answers = [*self._answers, *more], []
        self._now += 1
        did = self.worker.step(Timestamp(self._now), Instant(self._now), todo)
        self.done += did
        for action in did:
            self._answer(action)

    def records(self, first: int, records: list[Any]) -> None:
        """These are at hand together."""
        self.run([events.RecordsArrived(FENCE, FRONT, Partition(""), Offset(first), records, len(records))])

    def _answer(self, action: actions.Action) -> None:
        answers: dict[type, Callable[[Any], events.Event]] = {
            actions.Deliver: lambda a: events.BundlesAcknowledged(FENCE, a.sink, a.number),
            actions.Append: lambda a: events.JournalAppended(FENCE, FRONT, a.entry.time),
            actions.OpenSink: lambda a: events.SinkOpened(FENCE, a.sink, {}),
            actions.SealJournal: lambda a: events.JournalSealed(FENCE, FRONT, []),
            actions.Upload: lambda a: events.Uploaded(FENCE, a.epoch, [], []),
            actions.Wake: lambda a: events.Woken(),
        }
        if type(action) in answers:
            self._answers.append(answers[type(action)](action))
        if isinstance(action, actions.Upload):
            self.rows += action.rows
        match action:
            case actions.ToldCoordinator(messages.Accepted(epoch=epoch, cut=cut)):
                self._answers.append(events.FromCoordinator(messages.Committed(FENCE, epoch, cut)))
