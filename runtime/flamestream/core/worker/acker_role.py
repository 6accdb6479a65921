"""The acker: the one worker that folds everybody's acks, asks idle fronts, and tells all what time it is.

When a run enters at t, every other journalled front that has promised less than t is asked to move past it;
fronts with nothing to send answer at once. So neither idleness nor clock skew costs more than a round trip. A
timed front is never asked: nothing but its input moves it (!). As far as it is behind, nobody has to move
past it either: minimal time waits for it, and answers that enter further on would, too.

A live error item under `onError: fail` holds minimal time at its run, everywhere: what is told to others
never passes it. Once nothing at or below that time is in flight the error is real, for no tombstone can come
any more (!). An epoch that ends the graph's part holds it as well, at its cut: nothing above is released, so
all of it is the next graph's. An epoch that slots move behind waits until all workers let nothing enter, and all
that has entered is through: above its cut there is nothing to replay.

Keeps: told times never go back, and a promise counts only behind the acks of the run it covers (invariant 1).
Does not: know what runs contain, or who is behind a front.
Source: design, "Time and order" 3; the cut at minimal time is decision 003.
"""

from collections.abc import Iterable, Mapping

from flamestream.core.protocol.messages import (
    Acks,
    Cut,
    Hold,
    MinimalTime,
    Paused,
    PeerMessage,
    Promise,
    Question,
    Reached,
    Settled,
    Undecided,
)
from flamestream.core.protocol.queries import Ask, Prove, Proved
from flamestream.core.worker.acker import AckTable
from flamestream.core.worker.queries.looks import Looks
from flamestream.model.ids import Epoch, MessageId, WorkerId
from flamestream.model.time import END, START, FrontId, Time


class Acker:
    """Takes what workers say; `told` gives what all must hear since the last call, `questions` what fronts
    are asked."""

    def __init__(
        self,
        fronts: Mapping[FrontId, bool],
        workers: Iterable[WorkerId],
        start: Time,
        of_calls: Iterable[FrontId] = (),
    ) -> None:
        """`fronts` says of each whether it can be asked (journalled); `start` is the cut that the attempt
        replays from; `of_calls` are the fronts of answers."""
        self.table = AckTable(fronts, start)
        self._askable = [front for front, journalled in fronts.items() if journalled]
        self._timed = [front for front, journalled in fronts.items() if not journalled]
        self._asked = dict.fromkeys(self._askable, start)
        self._entered = self._written = start
        self._idle = dict.fromkeys(of_calls, start)
        """When each front of answers was last known to wait for none."""
        self._tell_end: set[FrontId] = set()
        """Fronts of answers that have to tell the end of their event time, as far as they said."""
        self._ending: FrontId | None = None
        """The last that was told to."""
        self._ends: list[FrontId] = []
        """Those that are told to now."""
        # (!) Of calls only their workers know whether all below the cut is settled.
        self._told_settled = START if self._idle else start
        self._settled = dict.fromkeys(workers, self._told_settled)
        self._holds: dict[Time, list[str]] = {}
        self._told = start
        self._told_reached = dict.fromkeys(workers, start)
        self._cuts: list[tuple[Epoch, bool]] = []
        self._pausing: Epoch | None = None
        """The epoch that is cut when nothing enters any more."""
        self._paused = dict.fromkeys(workers, Epoch(0))
        self._decided = Epoch(0)
        """Epochs up to it hold nothing any more."""
        self._held: tuple[Epoch, Time] | None = None
        """The epoch that holds minimal time at its cut."""
        self._released = START
        self._looks = Looks()

    def take(self, sender: WorkerId, message: PeerMessage) -> None:
        """Fold in one message."""
        match message:
            case Acks():
                for cause, ids in zip(message.causes, message.ids, strict=True):
                    self.table.ack(Time(cause), MessageId(ids))
            case Promise():
                # the acks of that run came before it, on the same link (!)
                self._entered = max(self._entered, message.entered)
                self._written = max(self._written, message.written)
                self.table.promise(message.front, message.time)
                if message.front in self._idle:
                    self._idle[message.front] = max(self._idle[message.front], message.idle)
                    (self._tell_end.add if message.tells_end else self._tell_end.discard)(message.front)
            case Hold():
                self._hold(message)
            case Undecided():
                self.table.put_off(sender, message.time)
            case Settled():
                self._settled[sender] = max(self._settled[sender], message.time)
            case Ask():
                self._looks.ask(sender, message)
            case Proved():
                self._looks.proved(message.number)
            case Paused():
                self._paused[sender] = max(self._paused[sender], message.epoch)
            case _:
                raise AssertionError(f"not for the acker: {message}")

    def cut(self, epoch: Epoch, *, hold: bool = False, pause: bool = False) -> None:
        """Cut `epoch` at the minimal time that is told next (or was told last). `hold`: and stay there, until
        it is decided. `pause`: when all workers let nothing enter, and what has entered is through."""
        self.decided(Epoch(epoch - 1))
        # (!) A word that comes behind the end of its epoch holds nothing: nobody would let go of it.
        if epoch > self._decided:
            self._cuts.append((epoch, hold))
            self._pausing = epoch if pause else None

    def cut_now(self) -> None:
        """Wait for no pause: it has lasted too long."""
        self._pausing = None

    def decided(self, epoch: Epoch) -> None:
        """`epoch`, and any before it, is committed or aborted: minimal time goes on."""
        self._decided = max(self._decided, epoch)
        self._cuts = [cut for cut in self._cuts if cut[0] > epoch]
        if self._held is not None and self._held[0] <= epoch:
            self._held = None

    def replays(self, released: Time) -> None:
        """Attempts before have released results of runs up to there."""
        self._released = released

    @property
    def minimal_time(self) -> Time:
        """The time that may be told: minimal time, but not past a held one."""
        minimal = self.table.minimal_time
        if self._holds:
            minimal = min(minimal, *self._holds)
        return minimal if self._held is None else min(minimal, self._held[1])

    @property
    def error(self) -> str | None:
        """The first error that no tombstone can invalidate any more."""
        # while anything at or below is in flight, a tombstone may still take it away (!)
        first = min(self._holds, default=None)
        return self._holds[first][0] if first is not None and self.table.minimal_time > first else None

    def told(self) -> list[PeerMessage]:
        """Messages that all workers must hear: a new minimal time, cuts and looks behind it, a new settled time."""
        messages: list[PeerMessage] = []
        self._end_calls()
        if (time := self.minimal_time) > self._told:
            self._told = time
            messages.append(MinimalTime(time, min(time, Time(self._written + 1))))
        messages.extend(self._cuts_taken())
        if (look := self._looks.take(over=self._told == END)) is not None:
            messages.append(
                look
            )  # (!) behind the minimal time that it equals: whoever hears it stands exactly there
        if (settled := min(self._settled.values())) > self._told_settled:
            self._told_settled = settled
            messages.append(Settled(settled))
        return messages

    def _cuts_taken(self) -> list[Cut]:
        """Cuts of epochs, behind the minimal time that equals them (!): whoever hears one stands exactly there
        (decision 003)."""
        # (!) The next graph replays from a held cut: what was released before would come out otherwise.
        waits = self._told <= self._released
        left = [(epoch, hold) for epoch, hold in self._cuts if (hold and waits) or self._goes_on(epoch)]
        taken, self._cuts = [cut for cut in self._cuts if cut not in left], left
        for epoch, hold in taken:
            if hold:
                self._held = epoch, self._told
        return [Cut(epoch, self._told) for epoch, _ in taken]

    def _goes_on(self, epoch: Epoch) -> bool:
        """Whether something of what the cut of `epoch` should be behind is still to enter, or on its way."""
        if epoch != self._pausing:
            return False
        return min(self._paused.values()) < epoch or self._told <= self._upto()

    def _end_calls(self) -> None:
        """Fronts of answers end together, behind all others; before that those with event time tell its end,
        one after the other."""
        inputs = (front for front in self.table.fronts if front not in self._idle)
        if (
            self._idle
            and self.table.oldest == END
            and all(self.table.promised(front) == END for front in inputs)
            # (!) At a minimal time above every run: idle at an older one, a request may still come of a run.
            and min(self._idle.values()) > self._entered
        ):
            ending = next((front for front in self._idle if front in self._tell_end), None)
            if ending is None:
                for front in self._idle:
                    self.table.promise(front, END)
            # (!) What an end leads to may ask a later call, so all have to be idle again above its run.
            elif ending != self._ending:
                self._ending, self._ends = ending, [ending]

    def reached(self) -> list[tuple[WorkerId, Reached]]:
        """Workers that wait to decide transactions, and how far they can."""
        if not (found := self.table.stuck()):
            return []
        reached = self.table.reached
        # Who has heard of as much decides those below, and says so: nothing has to be told it again.
        waiting = [worker for worker in found if self._told_reached[worker] < reached]
        self._told_reached.update(dict.fromkeys(waiting, reached))
        return [(worker, Reached(reached)) for worker in waiting]

    def questions(self) -> list[Question]:
        """Fronts to be asked, each once for each time entered elsewhere."""
        upto = self._upto()
        asked = [
            front for front in self._askable if max(self.table.promised(front) - 1, self._asked[front]) < upto
        ]
        self._asked.update(dict.fromkeys(asked, upto))
        ends, self._ends = self._ends, []
        return [Question(front, upto) for front in asked] + [Question(front, END) for front in ends]

    def prove(self) -> Prove | None:
        """The proof that strict queries need, to be asked for."""
        if not self._looks.waits:
            return None
        return self._looks.prove([front for front in self._askable if self.table.promised(front) < END])

    def _upto(self) -> Time:
        """The newest run that minimal time can pass before anything else enters."""
        # - 1: a front may still stamp the very time that it promised, and minimal time would stand there
        return min([self._entered, *(Time(self.table.promised(front) - 1) for front in self._timed)])

    def _hold(self, message: Hold) -> None:
        errors = self._holds.setdefault(message.time, [])
        if message.count > 0:
            errors.append(message.error)
        else:
            # it is there: an error and its tombstone come from one worker, over one link, in that order
            errors.remove(message.error)
            if not errors:
                del self._holds[message.time]
