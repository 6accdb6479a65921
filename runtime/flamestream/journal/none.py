"""No journal: of a job whose fronts need none. A front whose source is gone is asked all the same, for who knows
what it was.

Does not: find the journal of a source that went together with the manifest's `journal`.
"""

from flamestream.core.protocol.actions import Append, SealJournal, TrimJournal
from flamestream.core.protocol.events import JournalSealed
from flamestream.model.errors import Bug
from flamestream.ports import Post


class NoJournal:
    """`ports.Journal` without entries."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def seal(self, action: SealJournal) -> None:
        """Answer: JournalSealed, at once."""
        self._post(JournalSealed(action.fence, action.front, []))

    def append(self, action: Append) -> None:
        """Raises Bug: nobody journals."""
        raise Bug(f"front {action.front} appends, and the job has no journal")

    def trim(self, action: TrimJournal) -> None:
        """Nothing is there."""
