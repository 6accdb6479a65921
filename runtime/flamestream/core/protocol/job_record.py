"""The job record: the only point of decision. One versioned record in the cluster state, changed by
compare-and-set alone.

Keeps: attempt, announced and committed never go back (whoever writes derives the next record from the one
read; a write that did not see the newest is a conflict). `writer` makes every written record different from
what anybody else could have written, so that a coordinator that does not know whether its write took effect
finds out by reading. Does not: store itself (ports.JobRecords, store/zookeeper.py).
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from flamestream.core.protocol.formats import FormatNumber, refuse_newer
from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.model.errors import UserError
from flamestream.model.ids import MAX_ATTEMPT, MAX_EPOCH, Attempt, Epoch, Fence
from flamestream.model.layout import Layout
from flamestream.model.time import END, MAX_FRONTS, START, Time

HANDED_OVER: Final = "handed over"


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a new coordinator must know, and all that it may rely on."""

    attempt: Annotated[Attempt, Meta(ge=0, lt=MAX_ATTEMPT)]
    """Below the greatest that there is, so that a recovery has a next one; `announced` the same."""
    layout: Layout
    announced: Annotated[Epoch, Meta(ge=0, lt=MAX_EPOCH)]
    """The greatest epoch number ever used: none is used twice."""
    committed: Annotated[Epoch, Meta(ge=0, lt=MAX_EPOCH)]
    cut: Time
    index: str
    """Name of the committed index; "" before the first commit."""
    index_hash: str
    job: str = ""
    outcome: str = ""
    """"" while the job may run; "completed", who it was handed over to, or why it must not go on."""
    holder: str = ""
    """The job that goes on with it under a name of its own; "": the one that it is called after."""
    code: str = ""
    """Digest of the application that this attempt runs; "" if nobody said."""
    taken_back: str = ""
    """Digest of the application that this one has taken over from because it failed; "": none."""
    writer: str = ""
    """Nonce of the coordinator that wrote it last."""
    fronts: Annotated[tuple[KnownFront, ...], Meta(max_length=MAX_FRONTS)] = ()
    """All fronts that ever had a number. Empty: they go by the order of the graph's sources."""
    format: FormatNumber = msgspec.UNSET

    def __post_init__(self) -> None:
        """Raises ValueError unless the fields fit together, and each fits the messages; and for one that only a newer
        release reads."""
        refuse_newer(self.format)
        if not START <= self.cut <= END:
            raise ValueError(f"its cut is {self.cut}: times are of 64 bits")
        if any(front.begins is not None and front.begins > END for front in self.fronts):
            raise ValueError("a front of it begins where no time is: times are of 64 bits")
        if self.committed > self.announced:
            raise ValueError(
                f"epoch {self.committed} is committed and the newest announced is {self.announced}"
            )

    @property
    def sources(self) -> list[str]:
        """Whose each front is, by its number; none: they go by the order of the graph's sources."""
        return [front.name for front in self.fronts]

    @property
    def fence(self) -> Fence:
        """The fence that every message and write of this attempt carries."""
        return Fence(self.attempt, self.layout.version)


def handed_over(to: str) -> str:
    """The outcome of a job that the job called `to` goes on with."""
    return f"{HANDED_OVER} to {to}"


def is_taken_over(record: JobRecord) -> bool:
    """Whether its holder has still to begin where another job has ended."""
    return bool(record.holder) and record.outcome == handed_over(record.holder)


def check_code(record: JobRecord, code: str, *, changed: bool) -> None:
    """Raise UserError if the job's last attempt ran another application than that with digest `code`, unless
    that is meant (`changed`).

    State up to the committed cut was made by the code of then. Results above it that were delivered already
    must come out the same again, or the recovery stops with a determinism error.
    """
    if changed or not record.code or not code or record.code == code:
        return
    state = (
        f"its state up to epoch {record.committed} was made by the code before"
        if record.committed
        else "nothing was committed yet"
    )
    raise UserError(
        f"the application's code is not that which job {record.job!r} ran with last: {state}. Put the files "
        "back, or go on with "
        "`flamestream run --changed`: the new code takes over behind that epoch, and an audit can only vouch "
        "for what lies below. What the "
        "old code delivered behind it must come out the same; to be sure of that, stop with a drain before "
        "an edit (`flamestream run --drain`, then Ctrl-C), or begin anew with `flamestream reset`"
    )
