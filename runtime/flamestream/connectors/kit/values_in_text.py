"""How many values a text can have that somebody else wrote: a few bytes of it can stand for many objects.

`[[],[],...` of 16 MiB are five million lists, half a gigabyte. So values are counted before one is made, by what stands between them:
each but the first follows a comma or an opening bracket. Those inside of quotes count too, which only a hundred pages of text come near.

Does not: decode (msgspec and csv do, in bounded depth).
"""

from typing import Final

MAX_VALUES: Final = 1_000_000
JSON: Final = ",[{"


def check_values(text: bytes | str, marks: str = JSON) -> None:
    """Raises ValueError for more than `MAX_VALUES`. `marks`: what stands before a value."""
    if len(text) < MAX_VALUES:  # nearly every text ends here
        return
    values = 1 + sum(text.count(mark) if isinstance(text, str) else text.count(mark.encode()) for mark in marks)
    if values > MAX_VALUES:
        raise ValueError(f"it has up to {values} values, more than {MAX_VALUES}: make records of its parts")
