"""The job record: the only point of decision. One versioned record in the cluster state, changed by compare-and-set alone.

Keeps: attempt, announced and committed never go back (whoever writes derives the next record from the one read; a write that did not
see the newest is a conflict). `writer` makes every written record different from what anybody else could have written, so that a
coordinator that does not know whether its write took effect finds out by reading.
Does not: store itself (ports.JobRecords and its adapters).
"""

import msgspec

from flamestream.model.ids import Attempt, Epoch, Fence
from flamestream.model.layout import Layout
from flamestream.model.time import Time


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a new coordinator must know, and all that it may rely on."""

    attempt: Attempt
    layout: Layout
    announced: Epoch
    """The greatest epoch number ever used: none is used twice."""
    committed: Epoch
    cut: Time
    manifest: str
    """Name of the committed manifest; "" before the first commit."""
    manifest_hash: str
    job: str = ""
    outcome: str = ""
    """"" while the job may run; "completed", or why it must not go on."""
    writer: str = ""
    """Nonce of the coordinator that wrote it last."""

    @property
    def fence(self) -> Fence:
        """What every message and write of this attempt carries."""
        return Fence(self.attempt, self.layout.version)
