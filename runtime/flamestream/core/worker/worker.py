"""Worker: one pass of events in, actions out. It executes the whole graph for its slots, hosts its fronts,
and maybe the acker.

A pass takes everything that is at hand: frames of peers, new records, answers of the shell. Items are
processed together, in the order of metas; then acks, promises, questions and times leave, one frame a peer:

    events -> admit -> process -> acks, promises -> (acker) minimal time -> barriers -> deliveries
       -> a slice of a chore -> frames

Whatever belongs to another fence than the current one changes nothing (invariant 6). User errors end the
attempt with `Failed`; an assertion ends the process, for a worker whose invariant is broken must not go on.

Does not: any I/O, and it reads no clock: readings of two come with the pass. It is longer than other modules,
for the order of what a pass does is all that it decides. Source: design, "Where things run" and "Processing".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, assert_never

from flamestream.core.dataflow.dataflow import Work
from flamestream.core.dataflow.held_outputs import HeldOutputs
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.outbox import Gathered, Inbox, Outbox
from flamestream.core.dataflow.outputs import Outputs
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.actions import Action, Exit, ToldCoordinator, Wake
from flamestream.core.protocol.inventory import inventory_of
from flamestream.core.protocol.settings import WorkerSettings, numbered
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.core.protocol.vocabulary import vocabulary
from flamestream.core.worker.acker_role import Acker
from flamestream.core.worker.calls import Calls
from flamestream.core.worker.counters import Counters
from flamestream.core.worker.epoch_work import EpochWork
from flamestream.core.worker.front import offset_in
from flamestream.core.worker.fronts import Fronts
from flamestream.core.worker.queries.gateway import Queries
from flamestream.core.worker.rejoin import Rejoin
from flamestream.core.worker.room import Pause, Room
from flamestream.model.entrances import Entrances
from flamestream.model.errors import FlameStreamError
from flamestream.model.event_time import Stamped
from flamestream.model.failure import located, told
from flamestream.model.graph import Graph
from flamestream.model.ids import NO_FENCE, Epoch, Fence, LayoutVersion, SinkName, SourceName, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.meta import Meta, first_component, metas_of, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.time import END, START, FrontId, Instant, Time, Timestamp, front_of

PAUSE_HEARTBEATS: Final = 10
"""So long a pause lasts at most."""
FENCED_HEARTBEATS: Final = 30
"""For so many a worker that a sink has fenced waits to hear of the newer attempt; then it is a zombie, and ends."""


class Worker:
    """A worker, for one life of its process."""

    def __init__(
        self, me: WorkerId, graph: Graph, settings: WorkerSettings, parts: Parts = REFERENCE
    ) -> None:
        self.me, self._parts = me, parts
        self.fence: Fence = NO_FENCE
        self.cuts = LiveCuts(START)
        self._graph = graph
        self._near = graph.near
        self.settings = settings
        """With the numbers that fronts have in this attempt."""
        self.flow = parts.dataflow(graph, settings, me, self.cuts, self)
        self._sources = {vertex.name: vertex.id for vertex in graph.sources}
        self._sinks = {vertex.id: SinkName(vertex.name) for vertex in graph.sinks if vertex.call is None}
        if settings.dead_letter is not None:
            self._sinks[self.flow.errors] = settings.dead_letter
        errors = {} if settings.dead_letter is None else {self.flow.errors: settings.dead_letter}
        self._numbers = Numbers(graph, errors)
        self._rejoin = Rejoin(me, settings, self.cuts, self.flow.states, self._numbers)
        self._queries = Queries(me, settings, self.flow.states, self.cuts, self._tell)
        self._actions: list[Action] = []
        self._reported = self._probed = self._instant = Instant(0)
        self._room = Room()
        self._took: int | None = 0
        """Microseconds of the passes since one was measured."""
        self._counters = Counters(settings.clocked)
        self._now = Timestamp(0)
        self._runs: list[Work] = []
        self._told_all: list[msg.PeerMessage] = []
        """Told by the acker on this worker to all others, and not yet applied here."""
        self.entered: list[tuple[SourceName, ev.Entry, Sequence[object]]] | None = None
        """Runs that have entered at fronts of this worker since somebody took them out, with their payloads; None:
        nobody will."""
        self.stream_passes = 0
        """Passes in which there was something to process."""
        self._halted = True
        self._failure: msg.Failed | None = None
        self._fenced: tuple[Instant, str] | None = None
        """Since when a newer attempt is known here, that it has heard nothing of; and of whom."""
        self._name_fronts([])
        self._begin(Layout(LayoutVersion(0), (me,) * settings.slots, (), me), START, {}, {})

    def hello(self, address: str) -> msg.Hello:
        """The first message on a connection to the coordinator, which may be a new one."""
        self._counters.tell_anew()
        ready = self._rejoin.running and not (self._halted or self._fronts.drained or self._broken)
        return msg.Hello(
            self.me, address, self.fence, ready, self.settings.python, self._graph.identity,
            self.settings.code, clocks=len(self._graph.clocks) + sum(f.of_call for f in self.settings.fronts),
            inventory=inventory_of(self._graph, self.settings.dead_letter, self.settings.fronts),
            vocabulary=vocabulary(),
        )  # fmt: skip

    # --- one pass -------------------------------------------------------------------------------------------

    def step(
        self, now: Timestamp, instant: Instant, events: Sequence[ev.Event], took: int | None = None
    ) -> list[Action]:
        """Take a pass of events; what must be done, in order. `now` stamps runs, and may jump; `instant` says
        what is due; `took`: microseconds of the last pass, with all that it asked for; None: nobody
        measures."""
        self._now, self._instant = now, instant
        self._took = None if took is None else took + (self._took or 0)
        if not self.flow.waits:  # two passes are one where others' share left before this worker's was done
            self._room.next_pass(self._took)
            self._took = 0
        else:
            self._room.second_half()
        if self._told_all and not self._halted:
            self._try(self._hear_own)
        for event in events:
            # each by itself: behind one that halts this attempt may stand the next one's Recover
            self._try(self._take, event)
        self._try(self._process)
        self._try(self._complete)
        self._try(self._flush)
        self._counters.passed(self._minimal, instant)
        self._actions += self._rejoin.prefetch.go_on(self.settings.slice_size)
        self._actions += self._queries.take_actions()
        self._report()
        self._leave_behind_a_fence()
        actions, self._actions = self._actions, []
        return actions

    def _try(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except FlameStreamError as error:
            self._halt(error.category, str(error))

    def _take(self, event: ev.Event) -> None:
        if isinstance(event, ev.FromCoordinator):
            self._told(event.message)
        elif isinstance(event, ev.FromPeer):
            self._frame(event)
        elif isinstance(event, ev.Woken):
            return
        elif isinstance(event, ev.Prefetched):
            self._rejoin.prefetch.read(event)
        elif isinstance(event, ev.Queried):
            self._queries.asked(event)
        elif isinstance(event, ev.QueryLeft):
            self._queries.left(event.number)
        elif event.fence == self.fence and not self._halted:  # answers to an older attempt change nothing (!)
            self._answer(event)

    def _process(self) -> None:
        self._calls.enter()
        self._go_on_pausing()
        self._fronts.advance(self._now)
        if self._halted:
            return
        runs, self._runs = self._runs, []
        if runs and self._peers and not self.flow.waits:
            if self.flow.share(runs):
                return
            runs = []
        if runs or self.flow.has_work:
            self.stream_passes += 1
            self.flow.run(runs)

    def _go_on_pausing(self) -> None:
        paused, self._fronts.paused = self._fronts.paused, self._pause.lasts(self._instant)
        if paused and not self._fronts.paused and self._acker is not None:
            self._acker.cut_now()

    def _flush(self) -> None:
        if self._halted or not self._rejoin.linked:
            return
        if self.flow.waits:
            self._let_others_begin()
            return
        self._to_acker()  # acks of all that this pass has processed, and no earlier (!)
        while self._acker is not None and self._rejoin.running and self._hear(self._acker):
            if not self._peers:
                self._hear_own()
            self._to_acker()
        calls = self._outputs.calls()
        if self._epochs.go_on(self._outputs.settled(self._minimal)):
            self._tell_progress()  # before the last acceptance (!): behind it the job may have ended
        self._calls.go_on()
        if self._instant - self._probed >= self.settings.probe and self._rejoin.running:
            self._probed = self._instant
            self._outbox.probe(self._peers)
            if not self.settings.durable:
                self._epochs.forget()
                self._fronts.committed(self._minimal)
                self._counters.committed(self._minimal)
        self._fronts.pull()
        self._actions += [
            *self._outbox.frames(), *calls, *self._calls.actions, *self._epochs.actions, *self._fronts.actions
        ]  # fmt: skip
        self._calls.actions, self._epochs.actions, self._fronts.actions = [], [], []
        waits = self._fronts.waits_for_a_pass or self._calls.waits_for_a_pass or self.flow.has_work
        if self._told_all or waits:
            self._actions.append(Wake())

    def _let_others_begin(self) -> None:
        """Send what of new runs belongs to other workers; this worker does its own share in the next pass, at
        the same time as they.

        Nothing is acked or promised before that share is done (!), so two passes are one for everybody else.
        """
        self._outbox.close()
        self._actions += [*self._outbox.frames(), *self._fronts.actions, Wake()]
        self._fronts.actions = []

    def _leave_behind_a_fence(self) -> None:
        """End a process that a newer attempt goes on without."""
        if (
            self._fenced is None
            or self._instant - self._fenced[0] < FENCED_HEARTBEATS * self.settings.heartbeat
        ):
            return
        self._actions.append(Exit("fenced", self._fenced[1]))
        self._fenced = None

    def _halt(self, category: str, message: str) -> None:
        """This attempt can't go on here; the coordinator decides what follows."""
        self._halted = True
        self._queries.end(message)
        self._failure = self._failure or msg.Failed(self.fence, category, message)
        self._actions.append(ToldCoordinator(self._failure))

    # --- the coordinator ------------------------------------------------------------------------------------

    def _told(self, message: msg.ToWorker) -> None:
        if isinstance(message, msg.Stop):
            self._halted = True
            self._actions.append(Exit("", message.reason))
        elif isinstance(message, msg.Recover):
            if message.assignment.fence > self.fence:
                self._recover(message)
        elif isinstance(message, msg.Warm):
            if message.fence >= self.fence:
                self._warm(message)
        elif message.fence == self.fence and not self._halted:
            self._directed(message)

    def _warm(self, message: msg.Warm) -> None:
        if message.fence > self.fence and not message.slots and self._rejoin.mine:
            # (!) A newer attempt has gone on without this worker. Where records are skipped, attempts give one time
            # to different ones: a cut that it has taken may be another's with the same number.
            self._halted, self._fenced = True, None
            self._queries.end("the job goes on without this worker")
            self._epochs.finish_chores()
            self._rejoin.left_out()
        self._actions += self._rejoin.prefetch.want(message)

    def _directed(
        self, message: msg.Seal | msg.Replay | msg.Announce | msg.Committed | msg.Abort | msg.Drain
    ) -> None:
        match message:
            case msg.Seal():
                self._fronts.seal(self.cuts.committed, message.released)
                self._rejoin.seal()
                self._advance()
            case msg.Replay():
                if self._rejoin.replay():
                    self._replay(message)
            case msg.Announce():
                self._epochs.announced(message.epoch, message.compact)
                if self._acker is not None:
                    self._acker.cut(message.epoch, hold=message.hold, pause=message.pause)
                if message.pause:
                    self._pause.begin(message.epoch, self._instant)
            case msg.Committed():
                self._decided(message.epoch)
                if self._epochs.committed(message.epoch, message.cut):
                    self._fronts.committed(message.cut)
                    self._outputs.commit(message.cut)
                    self._calls.commit(message.cut)
                    self._counters.committed(message.cut)
            case msg.Abort():
                self._decided(message.epoch)
                self._epochs.aborted(message.epoch)
            case msg.Drain():
                self._fronts.drain()
                self._calls.drain()

    def _replay(self, message: msg.Replay) -> None:
        # A request leaves no trace at a consumer: its answer has one in the journal.
        left = message.bound if self._graph.calls else message.released
        self._fronts.start(message.bound, message.begins, until=left if message.drained else END)
        self._calls.start()
        self._queries.replays(message.bound)
        self._counters.replays(message.bound, self._instant)
        if message.drained:
            self._calls.drain()
        if self._acker is not None:
            self._acker.replays(left)

    def _decided(self, epoch: Epoch) -> None:
        self._pause.decided(epoch)
        if self._acker is not None:
            self._acker.decided(epoch)

    def _recover(self, message: msg.Recover) -> None:
        self.fence = message.assignment.fence
        self._halted, self._fenced = False, None
        self._epochs.finish_chores()
        self._actions += self._rejoin.begin(message, list(self._sinks.values()))
        self._name_fronts(message.sources)
        positions = {} if message.index is None else {front.front: front for front in message.index.fronts}
        self._counters.begin(
            self._fronts.replayed, self._outputs.invalidated, message.cut, self.settings.clocked
        )
        reached = {front.front: front for front in message.reached}
        self._begin(message.assignment.layout, message.cut, positions, reached)

    def _name_fronts(self, known: Sequence[str]) -> None:
        """Give the fronts their numbers in the job; `known` as for `WorkerSettings.numbered`."""
        self.settings = replace(self.settings, fronts=numbered(self.settings.fronts, known))
        self._names = {FrontId(number): SourceName(name) for number, name in enumerate(known)}
        self._names.update((front.front, front.source) for front in self.settings.fronts)
        self._entrances = Entrances(
            self._graph, {front.front: front.source for front in self.settings.fronts}
        )

    def _begin(
        self, layout: Layout, cut: Time, positions: Mapping[FrontId, FrontPosition],
        reached: Mapping[FrontId, FrontPosition],
    ) -> None:  # fmt: skip
        """Make anew everything that lives for one attempt."""
        settings, me, self._layout = self.settings, self.me, layout
        self._peers = [worker for worker in layout.workers if worker != me]
        self._outbox, self._inbox = Outbox(self.fence, me, layout), Inbox()
        mine, timings = layout.fronts_of(me), self._entrances.timings
        unsettled = cut if self._graph.calls else START
        self._fronts = Fronts(self.fence, settings, mine, positions, self._enter, timings, reached, unsettled)
        self._fronts.room = self._room
        askable = {front.front: not front.timed for front in settings.fronts}
        answers = [front.front for front in settings.fronts if front.of_call]
        self._acker = Acker(askable, layout.workers, cut, answers) if layout.acker == me else None
        outputs = HeldOutputs if settings.two_phase else Outputs
        self._outputs = outputs(self.fence, self._sinks, cut, settings.delivery_items, self._parts)
        self._calls = Calls(
            self._graph, settings, self.fence, layout, me, cut, self._parts, self._fronts.answered
        )
        self._pause = Pause(PAUSE_HEARTBEATS * settings.heartbeat)
        self._broken: dict[WorkerId, str] = {}
        self._failure, self._runs, self._told_all = None, [], []
        self._epochs = EpochWork(self.fence, self.cuts, self.flow.states, settings, self._numbers)
        self._undecided = END
        self._minimal, self._settled_told = cut, START if self._graph.calls else cut
        self._queries.begin(layout, cut)
        self.flow.reset(layout.owners, {**self._outputs.barriers, **self._calls.barriers}, self._calls.doors)

    def _answer(self, event: ev.Answer) -> None:
        match event:
            case ev.RecordsArrived():
                self._fronts.records(event)
            case ev.BundlesAcknowledged():
                self._counters.acknowledged(*self._outputs.acknowledged(event), self._now)
            case ev.JournalAppended():
                self._fronts.durable(event.front, event.time)
                self._calls.durable(event.front, event.time)
            case ev.CallReturned():
                self._calls.returned(event)
            case ev.JournalFailed():
                self._fronts.stalled[event.front] = event.message
            case ev.RunRead():
                self._fronts.read_again(event.front, event.entry, event.payloads)
            case ev.SourceEnded():
                self._fronts.ended(event.front)
            case ev.SourceFailed() | ev.SinkFailed():
                self._halt(event.category, event.message)
            case ev.LinkBroken():
                self._lost(event.peer, event.reason)
            case ev.SinkFenced():
                # It may take part in the newer one: a busy worker hears of that later than others open their sinks.
                self._fenced = (
                    self._instant,
                    f"sink {event.sink!r} knows a newer attempt than {self.fence.attempt}",
                )
                self._halt("fenced", self._fenced[1])
            case ev.Uploaded() | ev.UploadFailed():
                self._epochs.uploaded(event)
            case _:
                self._recovering(event)

    def _recovering(self, event: ev.RecoveryAnswer) -> None:
        match event:
            case ev.SinkOpened():
                self._outputs.opened(event, compare=self.settings.exactly_once)
                self._rejoin.opened(event.sink, event.last, event.newest)
            case ev.JournalSealed():
                self._fronts.sealing.sealed(event.front, event.entries)
                self._calls.sealed(event.front, event.entries)
            case ev.Loaded():
                self._rejoin.loaded(event.chains, event.held, event.requests)
            case ev.LoadFailed():
                self._halt(event.category, event.message)
            case _:
                assert_never(event)
        self._advance()

    def _advance(self) -> None:
        """Tell the coordinator how far this recovery is."""
        told = self._rejoin.progress(self._outputs.released(), self._fronts.sealing)
        if any(isinstance(message, msg.Sealed) for message in told):
            # not at Replay: peers that heard theirs first are already heard (!)
            self._outputs.resume(self._rejoin.take_held())
            self._calls.resume(self._rejoin.take_requests())
        self._actions += [ToldCoordinator(message) for message in told]

    def _complete(self) -> None:
        """Make some more of what loaded states must have."""
        if self._rejoin.go_on():
            self._advance()
        if self._rejoin.completes:
            self._actions.append(Wake())

    def _lost(self, peer: WorkerId, reason: str) -> None:
        """The link to `peer` is broken, or has lost a frame: the coordinator is told, once."""
        if peer not in self._broken:
            self._broken[peer] = reason
            self._actions.append(ToldCoordinator(msg.PeerLost(self.fence, peer, reason)))

    # --- items ----------------------------------------------------------------------------------------------

    def _enter(self, source: SourceName, entry: ev.Entry, payloads: Sequence[object]) -> int:
        """A run of a front of this worker enters. How many marks of event time it tells."""
        self._counters.entered(entry.time, entry.count)
        if self.entered is not None:
            self.entered.append((source, entry, payloads))
        self._calls.entered(source, entry.time, payloads)
        number = self._sources[source]
        entering = self._entrances.entering(entry.time, entry.partition, payloads)
        metas = metas_of(entry.time, len(entering))
        for position, (meta, payload) in enumerate(zip(metas, entering, strict=True)):
            if type(payload) is ErrorValue:
                place = (entry.partition, offset_in(entry.first, entry.count, entry.next, position))
                self.flow.bad_record(entry.time, meta, located(payload, source, place))
            else:
                self._runs.append((meta, entry.time, number, payload, False))
        tells = source in self._entrances.timings
        return list(map(type, entering)).count(Stamped) if tells else 0

    def _frame(self, event: ev.FromPeer) -> None:
        # before that, state is not all here (!)
        if event.frame.fence != self.fence or self._halted or not self._rejoin.ready:
            return
        if self._inbox.admits(event.peer, event.frame.sequence):
            for message in event.frame.messages:
                self._peer(event.peer, message)
        elif event.peer in self._inbox.lost:
            self._lost(event.peer, f"frame {event.frame.sequence} came out of sequence")

    def _peer(self, peer: WorkerId, message: msg.PeerMessage) -> None:
        match message:
            case msg.Data():
                self._outbox.received(message.cause, message.id)
                self.flow.receive(message)
            case msg.Acks() | msg.Promise() | msg.Ask():  # the most of what others than Data are
                self._at_acker(peer, message)
            case msg.MinimalTime() | msg.Cut() | msg.Look():
                self._hear_message(message)
            case msg.Peek() | msg.Gather() | msg.Gathered() | msg.Left() | msg.Seen():
                self._queries.take(peer, message)
            case msg.Prove():
                self._fronts.proofs.ask(message.front, message.number)
            case msg.Settled() if self._acker is None:
                self._hear_message(message)
            case msg.Reached():
                self.cuts.reach(message.time)
            case msg.Question():
                self._fronts.asked(message.front, message.time)
            case msg.Traces():  # for the shell, which takes it out where it traces
                pass
            case _:
                self._at_acker(peer, message)

    def _at_acker(self, peer: WorkerId, message: msg.PeerMessage) -> None:
        assert self._acker is not None, f"{self.me} is not the acker, but got {message}"
        self._acker.take(peer, message)

    def send(
        self, owner: WorkerId, cause: Time, vertex: int, meta: Meta, payload: object, tombstone: bool
    ) -> None:
        """An item for another worker (dataflow.Output)."""
        self._outbox.send(owner, cause, vertex, meta, payload, tombstone)

    def send_gathered(self, owner: WorkerId, cause: Time, items: Gathered) -> None:
        """Items for another worker, in one message (dataflow.Output)."""
        self._outbox.send_gathered(owner, cause, items)

    def located(self, vertex: int, meta: Meta, error: ErrorValue, at_door: bool) -> ErrorValue:
        """The error with where its item came from (dataflow.Output): a record's place only where every run of
        the job would know it."""
        time = time_of_meta(meta)
        known = vertex in self._near and (at_door or not self._graph.vertices[vertex].routed)
        place = self._fronts.record(time, first_component(meta)) if known else None
        return located(error, self._names[front_of(time)], place, vertex)

    def error(self, meta: Meta, error: ErrorValue, tombstone: bool) -> None:
        """An error item under `onError: fail`: minimal time must not pass its run while it lives
        (dataflow.Output)."""
        time = time_of_meta(meta)
        source = self._names[front_of(time)]
        where = f"{self._fronts.place_of(time, first_component(meta))} of source {source!r}"
        self._tell(
            self._layout.acker, msg.Hold(time, -1 if tombstone else 1, told(error, where, self._graph))
        )

    def late(self, meta: Meta, number: int, tombstone: bool) -> None:
        """Items that came too late for a program in event time (dataflow.Output): counted once that is
        certain."""
        time = time_of_meta(meta)
        source = self._names[front_of(time)]
        self._counters.late(time, source, -number if tombstone else number)

    # --- time -----------------------------------------------------------------------------------------------

    def _tell(self, worker: WorkerId, message: msg.PeerMessage) -> None:
        if worker == self.me:
            self._peer(worker, message)
        else:
            self._outbox.tell(worker, message)

    def _to_acker(self) -> None:
        """Tell the acker of acks, then of the promises that they allow (!), then of what is settled."""
        acker, acks = self._layout.acker, self._outbox.acks()
        if (undecided := self.flow.undecided) != self._undecided:
            # (!) With the acks of what was put off, and of what the others have led to: in one frame.
            self._undecided = undecided
            self._tell(acker, msg.Undecided(undecided))
        if acks is not None:
            self._tell(acker, acks)
        for promise in self._fronts.promises(self._now, self._minimal if self._calls.idle else START):
            self._tell(acker, promise)
        for proof in self._fronts.proofs.take():
            self._tell(acker, msg.Proved(proof))
        if not self._fronts.started:  # others may not be ready to hear anything
            return
        if (settled := min(self._outputs.settled(self._minimal), self._calls.settled)) > self._settled_told:
            self._settled_told = settled
            self._tell(acker, msg.Settled(settled))
        if (epoch := self._pause.news()) is not None:
            self._tell(acker, msg.Paused(epoch))

    def _hear(self, acker: Acker) -> bool:
        """Tell all what is new to the acker here. True if something was. This worker hears it as the others
        do, behind this pass: what it does then must not hold up what they wait for."""
        told, reached, questions = acker.told(), acker.reached(), acker.questions()
        for message in told:
            for peer in self._peers:
                self._outbox.tell(peer, message)
        self._told_all += told
        for worker, how_far in reached:
            self._tell(worker, how_far)
        for question in questions:
            self._tell(self._layout.fronts[question.front], question)
        if (prove := acker.prove()) is not None:
            self._tell(self._layout.fronts[prove.front], prove)
        return bool(told or reached or questions or prove)

    def _hear_own(self) -> None:
        told, self._told_all = self._told_all, []
        for message in told:
            self._hear_message(message)

    def _hear_message(self, message: msg.PeerMessage) -> None:
        match message:
            case msg.MinimalTime():
                self._minimal = message.time
                self.cuts.advance(message.time)
                self._calls.release(message.time)
                self._counters.released(message.time, self._outputs.release(message.time), self._now)
                if message.time == END:
                    self._fronts.end_calls()
                self._queries.advanced(message.certain)
            case msg.Look():
                self._queries.look(message)
            case msg.Settled():
                self._fronts.settled(message.time)
            case msg.Cut():
                positions = self._fronts.positions(message.time)
                self._epochs.cut(
                    message.epoch,
                    message.time,
                    positions,
                    self._outputs,
                    self._calls.rows(message.epoch, message.time),
                )
                if self._acker is not None:
                    self._actions.append(
                        ToldCoordinator(msg.CutTaken(self.fence, message.epoch, message.time))
                    )

    def _report(self) -> None:
        # a standby reports too: else nobody could tell that its machine is gone before it is given slots
        if self._instant - self._reported >= max(self.settings.heartbeat, self.settings.report):
            self._tell_progress()

    def _tell_progress(self) -> None:
        self._reported = self._instant
        acker, fronts, contended = self._acker, self._fronts, self.flow.contended()
        # minimal time stays at it; said each time, for the coordinator may be a new one
        if acker is not None and acker.error is not None:
            self._actions.append(ToldCoordinator(msg.Failed(self.fence, "user", acker.error)))
        progress = msg.Progress(
            self.fence, self._minimal, self._outputs.settled(self._minimal),
            END if acker is None else acker.table.oldest,
            problem="; ".join(filter(None, [*fronts.stalled.values(), self._rejoin.prefetch.problem])),
            ended=fronts.all_ended and self._minimal == END,
            event_times=self._entrances.event_times(self._layout.fronts_of(self.me)),
            idle=self._entrances.idle(self._layout.fronts_of(self.me)),
            in_flight=fronts.in_flight, asked=self._calls.asked, waiting=self._calls.waiting, drained=fronts.drained,
            reached=fronts.reached, skipped=fronts.skipped,
            errors=self._outputs.counts.get(self.flow.errors, 0), warm=self._rejoin.prefetch.warm,
            **self._counters.report(fronts.replayed, self._outputs.invalidated),
            transactions=contended.decided, decisions=contended.runs, aborted=contended.aborted,
            deciding_waits=contended.waits,
        )  # fmt: skip
        self._actions.append(ToldCoordinator(progress))
        # What makes this attempt unfit is said with each report, for the coordinator may be one that was
        # greeted before it was so (!).
        if self._failure is not None:
            self._actions.append(ToldCoordinator(self._failure))
        self._actions += [
            ToldCoordinator(msg.PeerLost(self.fence, peer, reason)) for peer, reason in self._broken.items()
        ]
