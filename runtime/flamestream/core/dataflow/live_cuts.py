"""Live cuts: the times whose state must stay at hand: the committed cut, the announced one, and minimal time.

A bucket may forget what lies between two of them, never what one of them needs (!): a survivor rolls back to
the committed cut (or to the announced one, if it was committed and this worker did not hear), a snapshot
reads the announced one, and late items insert themselves anywhere above minimal time.

Times are kept as floors (`meta.floor`), which compare with metas directly.
"""

from flamestream.model.ids import Epoch
from flamestream.model.meta import Meta, floor
from flamestream.model.time import Time


class LiveCuts:
    """The live cuts of one worker. `all` is ascending, without repetition."""

    def __init__(self, committed: Time) -> None:
        self.reset(committed)

    def reset(self, committed: Time) -> None:
        """A recovery: only the cut it goes back to is left."""
        self.committed = self.minimal = committed
        self.announced: tuple[Epoch, Time] | None = None
        self.reached = committed
        """Below it nothing is in flight or will enter, but for what transactions lead to that are put off."""
        self._refresh()

    def reach(self, time: Time) -> None:
        """Nothing else than transactions that are put off stands in the way of minimal time, up to there."""
        self.reached = max(self.reached, time)

    def advance(self, minimal: Time) -> None:
        """Minimal time has moved on."""
        assert minimal >= self.minimal, f"minimal time went back from {self.minimal} to {minimal}"
        self.minimal = minimal
        self._refresh()

    def announce(self, epoch: Epoch, cut: Time) -> None:
        """An epoch is pending at `cut`, which is minimal time."""
        # equal, because the cut came behind that minimal time, in one stream (decision 003)
        assert self.committed <= cut == self.minimal, (
            f"epoch {epoch} is cut at {cut}, between {self.committed} and {self.minimal}"
        )
        self.announced = (epoch, cut)
        self._refresh()

    def abort(self, epoch: Epoch) -> None:
        """The pending epoch will never be committed."""
        # a late abort of an older epoch says nothing of the one announced since
        if self.announced is not None and self.announced[0] == epoch:
            self.announced = None
            self._refresh()

    def commit(self, cut: Time) -> None:
        """`cut` is the committed one now."""
        assert cut >= self.committed, f"the committed cut went back from {self.committed} to {cut}"
        self.committed = cut
        # Above the cut it is a later epoch, which may still be committed: its state stays at hand (!).
        if self.announced is not None and self.announced[1] <= cut:
            self.announced = None
        self._refresh()

    def holds(self, cut: Time) -> bool:
        """State at `cut` is at hand."""
        # Not minimal time, though its state is here too: a recovery goes back to what is committed, or may
        # be.
        return cut == self.committed or (self.announced is not None and cut == self.announced[1])

    def _refresh(self) -> None:
        announced = [] if self.announced is None else [self.announced[1]]
        self.all: list[Meta] = [floor(cut) for cut in sorted({self.committed, *announced, self.minimal})]
        self.newest = self.all[-1]
