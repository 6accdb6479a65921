"""Trust: whom a client of a job's port takes for the job, over TLS.

    by a URL             a certificate for the host of the URL, signed by an authority of the machine, or of a file
    by a manifest        the certificate that the manifest names, whatever is dialled
    through a tunnel     a certificate for the name that the job has in its cluster

Keeps: nothing is sent, the token least of all, before the server has proved that. Does not: prove the client (its token
does).
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from flamestream.model.errors import UserError


@dataclass(frozen=True, slots=True)
class Trust:
    """How a server is looked at."""

    context: ssl.SSLContext
    name: str = ""
    """The name that it has to prove; "": that which is dialled."""


def authority(file: Path | None = None, name: str = "") -> Trust:
    """A certificate for a name, by the authorities of a file (PEM), or of this machine. Raises UserError."""
    try:
        return Trust(ssl.create_default_context(cafile=file), name)
    except OSError as error:  # ssl's errors are such, too
        raise UserError(f"{file} has no certificates of authorities: {error}") from None


def pinned(certificate: str, where: str) -> Trust:
    """This certificate (PEM), or what is signed by it. Raises UserError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # one certificate is trusted, whatever is dialled
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be an authority's
    try:
        context.load_verify_locations(cadata=certificate)
    except (OSError, ValueError) as error:
        raise UserError(f"{where}: it is no certificate: {error}") from None
    return Trust(context)
