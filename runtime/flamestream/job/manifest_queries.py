"""The part of a manifest that says who may ask a running job for its states.

Does not: open a port (node/queries/door.py).
"""

from typing import Annotated, Final

from msgspec import Meta, field

from flamestream.connectors.kit.spec import address_of, need
from flamestream.job.manifest_parts import Part

STATE_NAME: Final = 253


class Queries(Part, frozen=True):
    """A port of each worker that gives states of keys."""

    listen: str
    """host:port of the HTTP port: on one machine all workers share it; in a cluster each pod has it."""
    token_file: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    """Clients send its content as their bearer token; left out, in a cluster that of the Secret JOB-queries."""
    tables: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=STATE_NAME)]], Meta(max_length=256)
    ] = field(default_factory=list)
    """The names of the tables and states that may be asked for; left out: all."""
    share: Annotated[float, Meta(gt=0, le=1)] = 0.25
    """The part of a worker's time, about, that may go into answers: clients above that wait."""

    def __post_init__(self) -> None:
        """Raises ValueError for an address that is none."""
        address_of(self.listen)
        need("httptools", "http")
