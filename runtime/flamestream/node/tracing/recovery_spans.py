"""The spans of a recovery, as one trace: what the coordinator did, by the first worker of the layout; and how
long each worker took to open, to seal and to replay.

    recovery ── decide, record, open, seal         the coordinator's steps, told with Replay
      └─ open w1, seal w1, replay w1 ...           each worker's own

They are told when all may replay: a recovery that another overtakes is none. The coordinator tells workers
what it measured, so that the process it runs in (an operator's, on a cluster) need not reach the collector.

Keeps: every worker computes the trace from the attempt. Does not: trace a recovery of batches.
"""

from collections.abc import Callable
from typing import Final

from flamestream.core.protocol import messages
from flamestream.model.ids import WorkerId
from flamestream.node.tracing.identities import Identities
from flamestream.node.tracing.span import Attribute, Span

FAILURES: Final = ("lost", "link", "worker", "stuck")


class RecoverySpans:
    """The recoveries of one worker's life."""

    def __init__(self, me: WorkerId, identities: Identities, give: Callable[[Span], None]) -> None:
        self._me, self._identities, self._give = me, identities, give
        self._first = False
        """Whether this worker tells the coordinator's part."""
        self._began: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._replay: messages.Replay | None = None

    def told(self, message: messages.ToWorker, now: int) -> None:
        """The coordinator has said this."""
        match message:
            case messages.Recover():
                self._first = self._me == message.assignment.layout.workers[0]
                self._began, self._ended, self._replay = {"open": now}, {}, None
            case messages.Seal():
                self._began["seal"] = now
            case messages.Replay():
                self._began["replay"], self._replay = now, message
                self._tell(message, now)

    def said(self, message: messages.ToCoordinator, now: int) -> None:
        """This worker says this to the coordinator."""
        match message:
            case messages.Opened():
                self._ended["open"] = now
            case messages.Sealed():
                self._ended["seal"] = now
            case messages.Progress() if (replay := self._replay) is not None and message.replay_us:
                if message.fence == replay.fence:
                    self._own(replay, "replay", self._began["replay"] + message.replay_us)
                    self._replay = None

    def _tell(self, message: messages.Replay, now: int) -> None:
        if self._first:
            self._coordinators(message, now)
        for step, end in self._ended.items():
            self._own(message, step, end)

    def _own(self, message: messages.Replay, step: str, end: int) -> None:
        trace = self._identities.of_recovery(message.fence.attempt)
        own = self._identities.span(trace, step.encode(), self._me.encode())
        parent, start = self._identities.span(trace), self._began.get(step, end)
        told: dict[str, Attribute] = {"flamestream.worker": self._me}
        self._give(Span(f"{step} {self._me}", trace.id, own, parent, start, max(start, end), attributes=told))

    def _coordinators(self, message: messages.Replay, now: int) -> None:
        """The recovery, and its steps one behind the other, up to now."""
        trace = self._identities.of_recovery(message.fence.attempt)
        root, at = self._identities.span(trace), now - sum(message.steps.values())
        told: dict[str, Attribute] = {
            "flamestream.attempt": int(message.fence.attempt), "flamestream.kind": message.kind,
            "flamestream.cause": message.cause,
        }  # fmt: skip
        error = message.cause if message.kind in FAILURES else ""
        self._give(Span("recovery", trace.id, root, 0, at, now, attributes=told, error=error))
        for step, took in message.steps.items():
            own = self._identities.span(trace, step.encode())
            self._give(Span(step, trace.id, own, root, at, at + took))
            at += took
