"""The pause: no run enters while the epoch is taken behind which slots move.

Whatever enters above the cut of such an epoch is computed again, by whoever has its slots then, and until that
is done no result leaves. So from its announcement on nothing enters; what has entered goes through to
consumers, and the cut comes behind it. The next attempt has nothing to replay.

>>> pause = Pause(limit=100)
>>> pause.begin(Epoch(4), Instant(1_000)); pause.lasts(Instant(1_050)), pause.news(), pause.news()
(True, 4, None)
>>> pause.decided(Epoch(4)); pause.lasts(Instant(1_060))
False

Keeps: it lasts no longer than `limit`, whoever should have ended it; one that is over does not begin again. Does
not: change what a cut means: where a pause ends too early, the epoch is like any other.
"""

from flamestream.model.ids import Epoch
from flamestream.model.time import Instant


class Pause:
    """The pause of one worker in one attempt, if it makes one."""

    def __init__(self, limit: int) -> None:
        """`limit`: microseconds."""
        self._limit = limit
        self._epoch: Epoch | None = None
        self._since = Instant(0)
        self._told = True
        self._decided = Epoch(0)

    def begin(self, epoch: Epoch, now: Instant) -> None:
        """Let nothing enter until `epoch` is decided."""
        # a word that comes behind the end of its epoch: nobody would end this one
        if epoch > self._decided:
            self._epoch, self._since, self._told = epoch, now, False

    def decided(self, epoch: Epoch) -> None:
        """`epoch`, and any before it, is committed or aborted."""
        self._decided = max(self._decided, epoch)
        if self._epoch is not None and self._epoch <= epoch:
            self._epoch = None

    def lasts(self, now: Instant) -> bool:
        """Whether nothing may enter."""
        if self._epoch is not None and now - self._since >= self._limit:
            self.decided(self._epoch)
        return self._epoch is not None

    def news(self) -> Epoch | None:
        """The epoch whose pause has begun since the last call."""
        told, self._told = self._told, True
        return None if told else self._epoch
