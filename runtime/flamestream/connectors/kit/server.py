"""Helpers of sinks and sources that talk to a server: an error for one that is away, and a password that is
in a file.

Does not: connect, or try again (loop/background.py, producer.py).
"""

from pathlib import Path

from flamestream.model.errors import UserError


class ServerAway(OSError):
    """The server is away for now, or another transaction is in the way: the same call may succeed later."""


def password_in(file: str, where: str) -> str:
    """The content of `password_file`, read at every connection. Raises UserError that begins with `where`."""
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: cannot read `password_file` {file}: {error}") from None
