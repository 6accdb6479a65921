"""The parameters of a request, read: what is asked of logs and of a drill.

Does not: answer. Raises Refused (400) for what cannot be meant.
"""

from collections.abc import Mapping

from flamestream.ui.log_files import LEVELS, Wanted
from flamestream.ui.source import Refused


def wanted(asked: Mapping[str, str]) -> Wanted:
    """The lines of logs that are asked for."""
    level, attempt, limit = asked.get("level", "info"), asked.get("attempt", ""), asked.get("limit", "200")
    if level not in LEVELS:
        raise Refused(400, f"level is one of {', '.join(LEVELS)}, not {level!r}")
    if not limit.isdecimal() or (attempt and not attempt.isdecimal()):
        raise Refused(400, "limit and attempt are numbers")
    return Wanted(
        asked.get("process", ""), level, asked.get("text", ""), int(attempt) if attempt else None,
        asked.get("since", ""), asked.get("until", ""), int(limit),
    )  # fmt: skip


def word_in(asked: Mapping[str, str], name: str) -> str:
    """A word that no command line takes for an option."""
    word = asked.get(name, "")
    if not word or word.startswith("-"):
        raise Refused(400, f"{name} is missing")
    return word


def seconds_in(asked: Mapping[str, str]) -> str:
    """The seconds before a drill strikes, an hour at most."""
    try:
        return str(min(3600.0, max(0.0, float(asked.get("after", "0")))))
    except ValueError as error:
        raise Refused(400, "after is a number of seconds") from error
