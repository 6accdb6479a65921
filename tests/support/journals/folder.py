"""A process with a journal in a folder, driven by hand."""

from pathlib import Path

from flamestream.journal.folder import FolderJournal
from flamestream.loop.reactor import EpollReactor
from support.journals.worker import FRONT as FRONT
from support.journals.worker import Worker as AnyWorker
from support.journals.worker import entry as entry
from support.journals.worker import fence as fence
from support.loops import turn_until


class Worker(AnyWorker):
    """A trim is done when it returns."""

    def __init__(
        self,
        loop: EpollReactor,
        root: Path,
        attempt: int,
        *,
        fsync: bool = False,
        rotate: int = 1 << 20,
        keep: bool = False,
    ) -> None:
        super().__init__(
            loop, attempt, lambda post: FolderJournal(root, loop, post, fsync=fsync, rotate=rotate, keep=keep)
        )

    def trim(self, before: int) -> None:
        done: list[object] = []
        self.ask_to_trim(before)
        self.loop.background(lambda: None, done.append)
        turn_until(self.loop, lambda: done, "helpers have caught up")
