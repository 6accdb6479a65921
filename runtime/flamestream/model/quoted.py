"""Users' data in a message for people: marked, so that it can be taken out where others read it than who may
see the data.

>>> message = f"the table does not take {quoted('a secret')}: too long"
>>> public(message)
"the table does not take (see the worker's log): too long"
>>> plain(message)
'the table does not take a secret: too long'

The marks are Unicode's isolates (U+2068, U+2069), which are made for foreign text in a sentence and are not
seen. Data cannot end its own mark: what it has of them is left out. A message that was cut within a mark is
private to its end.

Does not: know who reads what (node/discretion.py).
"""

import re
from typing import Final

BEGIN: Final = "\u2068"
END: Final = "\u2069"
INSTEAD: Final = "(see the worker's log)"
_QUOTED: Final = re.compile(f"{BEGIN}[^{END}]*(?:{END}|$)")
_MARKS: Final = {ord(BEGIN): None, ord(END): None}


def quoted(text: str) -> str:
    """Users' data marked as such, as part of a message."""
    return f"{BEGIN}{text.translate(_MARKS)}{END}"


def public(message: str) -> str:
    """The message without users' data."""
    return _QUOTED.sub(INSTEAD, message)


def plain(message: str) -> str:
    """The message with users' data, and without the marks."""
    return message.translate(_MARKS)
