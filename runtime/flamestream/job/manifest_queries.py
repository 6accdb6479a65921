"""The part of a manifest that says who may ask a running job for its states.

Does not: open a port (node/queries/door.py).
"""

from typing import Annotated, Final

from msgspec import Meta, field

from flamestream.connectors.kit.spec import address_of, need
from flamestream.job.manifest_parts import ObjectName, Part

STATE_NAME: Final = 253


class Tls(Part, frozen=True):
    """The certificate of the port, in files, or in a cluster in a Secret; whoever renews it writes it anew."""

    cert_file: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    """The certificate with those that it is signed by, as PEM."""
    key_file: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    """Its key, as PEM, without a password."""
    secret: ObjectName | None = None
    """In a cluster, instead of the two: a Secret of type kubernetes.io/tls, as cert-manager makes."""

    def __post_init__(self) -> None:
        """Raises ValueError unless it is the one or the other."""
        files = (self.cert_file, self.key_file)
        if (self.secret is None) != all(files) or any(files) != all(files):
            raise ValueError("it has certFile and keyFile, or in a cluster secret alone")


class Queries(Part, frozen=True):
    """A port of each worker that gives states of keys."""

    listen: str
    """host:port of the HTTP port: on one machine all workers share it; in a cluster each pod has it."""
    token_file: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    """Clients send its content as their bearer token; left out, in a cluster that of the Secret JOB-queries."""
    tls: Tls | None = None
    """The certificate that clients see; left out, the port speaks plain HTTP."""
    tables: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=STATE_NAME)]], Meta(max_length=256)
    ] = field(default_factory=list)
    """The names of the tables and states that may be asked for; left out: all."""
    share: Annotated[float, Meta(gt=0, le=1)] = 0.25
    """The part of a worker's time, about, that may go into answers whatever the stream needs: clients above that, and
    above half of what it leaves, wait."""

    def __post_init__(self) -> None:
        """Raises ValueError for an address that is none."""
        address_of(self.listen)
        need("httptools", "http")
