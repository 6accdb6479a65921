"""Epoch work: what one worker does for epochs, from the announcement to the trimming behind a commit, in
slices between passes.

    Announce -> Cut -> rows are encoded, a slice a pass -> Upload
       -> durable and all output below the cut acknowledged -> Accepted
    Committed -> buckets let go of what only older cuts needed, a slice a pass

The coordinator decides one epoch at a time, but its word and the acker's cut travel on different links: the
cut of an epoch may come before the word on the one before. What changed is reckoned from the committed cut,
so without that word it cannot be known, and the epoch is refused (!): rows reckoned from an older cut would
make a chain of deltas that fits no state.

Keeps: invariants 4 and 5; chores never hold up a pass (invariant 8). Does not: decide
(core/coordinator/epochs.py), or know what rows contain.
"""

from collections.abc import Iterator, Mapping, Sequence

from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.outputs import Outputs
from flamestream.core.dataflow.parts import States
from flamestream.core.protocol.actions import Action, ToldCoordinator, Wake
from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.events import Uploaded, UploadFailed
from flamestream.core.protocol.messages import Refused
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.core.worker.snapshot import EncodedRows, PendingSnapshot
from flamestream.model.ids import Epoch, Fence
from flamestream.model.time import END, Time


class EpochWork:
    """The epochs of one worker in one attempt. `actions` gathers what must be done."""

    def __init__(
        self, fence: Fence, cuts: LiveCuts, states: Mapping[int, States], settings: WorkerSettings,
        numbers: Numbers,
    ) -> None:  # fmt: skip
        self._numbers = numbers
        self.actions: list[Action] = []
        self._fence = fence
        self._cuts = cuts
        self._states = states
        self._settings = settings
        self._pending: PendingSnapshot | None = None
        self._compact: dict[Epoch, list[SegmentRef]] = {}
        self._chores: list[Iterator[object]] = []

    # --- what the coordinator and the acker say -------------------------------------------------------------

    def announced(self, epoch: Epoch, compact: list[SegmentRef]) -> None:
        """`epoch` will be cut. All before it are decided: the word on a committed one would have come
        first."""
        self._decided(Epoch(epoch - 1))
        self._compact = {epoch: compact}

    def cut(
        self,
        epoch: Epoch,
        cut: Time,
        fronts: list[FrontPosition],
        outputs: Outputs,
        requests: Sequence[Row] = (),
    ) -> None:
        """Minimal time is `cut`: everything below is final, and at hand. Begin the snapshot, or refuse the
        epoch. `requests`: what it holds of calls."""
        # (!) changes since an unknown cut would be deltas that fit no state
        if self._cuts.announced is not None:
            reason = f"what became of epoch {self._cuts.announced[0]} has not been heard yet"
            self.actions.append(ToldCoordinator(Refused(self._fence, epoch, reason)))
            return
        self._cuts.announce(epoch, cut)  # chores that are left come first, and no row is made before them
        # consumers of others do not know what they were given
        delivered = outputs.released() if self._settings.exactly_once else []
        rows = EncodedRows(self._rows(epoch, cut), self._settings.upload_bytes)
        self._pending = PendingSnapshot(
            self._fence, epoch, cut, rows, fronts, delivered, outputs.needed(cut),
            (self._numbers.rows_of_sinks(outputs.prepare(epoch)), self._numbers.rows_of_sinks(requests)),
        )  # fmt: skip

    def committed(self, epoch: Epoch, cut: Time) -> bool:
        """`epoch` is committed at `cut`: begin to let go of what only older cuts needed. False if that is not
        news."""
        self.aborted(epoch)
        # each worker that comes back to its coordinator is told the last commit once more
        if cut <= self._cuts.committed:
            return False
        self._cuts.commit(cut)
        self.finish_chores()
        self._chores = [state.committed(cut) for state in self._states.values()]
        return True

    def forget(self) -> None:
        """There are no epochs (guarantee `none`), so no recovery goes back to a cut: nothing needs what
        minimal time has passed."""
        self.committed(Epoch(0), self._cuts.minimal)

    def aborted(self, epoch: Epoch) -> None:
        """There is nothing left to do for `epoch`, or for any before it."""
        self._decided(epoch)

    def _decided(self, newest: Epoch) -> None:
        if self._cuts.announced is not None and self._cuts.announced[0] <= newest:
            self._cuts.abort(self._cuts.announced[0])
        if self._pending is not None and self._pending.epoch <= newest:
            self._pending = None

    # --- the work -------------------------------------------------------------------------------------------

    def go_on(self, settled: Time) -> bool:
        """Do a slice of what is left to do. All output below `settled` is with its consumers. Whether an epoch was
        accepted that has all of the input."""
        last = False
        if self._chores:
            self._trim()
        elif self._pending is not None:
            last = self._snapshot(self._pending, settled)
        if self._chores or (self._pending is not None and self._pending.rows.encoding):
            self.actions.append(Wake())
        return last

    def finish_chores(self) -> None:
        """All that is left at once: an unfinished one holds buckets that a snapshot or a rollback must
        visit."""
        for chore in self._chores:
            for _ in chore:
                pass
        self._chores = []

    def uploaded(self, event: Uploaded | UploadFailed) -> None:
        """The answer to an Upload; one to an epoch that is not pending any more is dropped."""
        if self._pending is None or self._pending.epoch != event.epoch:
            return
        if isinstance(event, UploadFailed):
            self._pending = None
            self.actions.append(ToldCoordinator(Refused(self._fence, event.epoch, event.message)))
        else:
            self._pending.uploaded(event.segments, event.replaced, event.held, event.requests)

    def _trim(self) -> None:
        chore = self._chores[0]
        for _ in range(self._settings.slice_size):
            if next(chore, self) is self:  # the default is an object that no chore yields
                del self._chores[0]
                break

    def _snapshot(self, pending: PendingSnapshot, settled: Time) -> bool:
        if pending.rows.encoding:
            pending.rows.encode(self._settings.slice_size, self._settings.slice_bytes)
        # The cut may come before the announcement, which has another link: then nothing is merged this time.
        compact = self._compact.get(pending.epoch, ())
        if (upload := pending.upload(compact, self._numbers.kept)) is not None:
            self.actions.append(upload)
        elif (accepted := pending.accepted(settled)) is not None:
            self._pending = None
            self.actions.append(ToldCoordinator(accepted))
            return accepted.cut == END
        return False

    def _rows(self, epoch: Epoch, cut: Time) -> Iterator[Row | None]:
        for vertex, state in self._states.items():
            yield from state.rows(self._numbers.of_states[vertex], epoch, cut)
