"""Identities: a newtype for every number and name, so that they cannot be mixed up."""

from typing import Annotated, Final, NamedTuple, NewType

from msgspec import Meta

MAX_ATTEMPT: Final = 10**8 - 1
"""Attempts, and versions of a layout, have eight digits in names (docs/reference/formats.md)."""
MAX_EPOCH: Final = 10**12 - 1
"""Epochs have twelve."""

WorkerId = NewType("WorkerId", str)
"""The name of one life of a worker process. A relaunched worker has a new one; it is never used again."""
Slot = NewType("Slot", int)
Epoch = NewType("Epoch", int)
Attempt = NewType("Attempt", int)
LayoutVersion = NewType("LayoutVersion", int)
SinkName = NewType("SinkName", str)
SourceName = NewType("SourceName", str)
MessageId = NewType("MessageId", int)
Partition = NewType("Partition", str)
NOTE: Final = "\0"
"""The beginning of the name of a partition that is none, and never has records: a source notes something in
its journal so. No topic, file or key is called like that."""
Offset = NewType("Offset", int)
SequenceNumber = NewType("SequenceNumber", int)
"""Number of a bundle within its (sink, slot), from 1, never reset."""


class Fence(NamedTuple):
    """Attempt and layout that a message or write carries; whoever has seen a greater fence refuses it
    (invariant 6)."""

    attempt: Annotated[Attempt, Meta(ge=0, le=MAX_ATTEMPT)]
    layout: Annotated[LayoutVersion, Meta(ge=0, le=MAX_ATTEMPT)]


NO_FENCE = Fence(Attempt(0), LayoutVersion(0))
