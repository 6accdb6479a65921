"""Which names an object may have, the same for every store.

Names are relative, parts separated by '/'. They must mean the same in a folder and in S3, so a part has
letters, digits and a few signs, begins with none that a store may treat as special (a leading dot is ours:
temporary files), and stays within 255 bytes.

>>> check_name("job/segments/000000000007.parquet")
'job/segments/000000000007.parquet'
>>> plain("worker 1/a")
'worker_1_a'

Does not: keep one name from being another's prefix plus '/' (whoever makes names does; their layout is in
docs/reference/formats.md).
"""

import re
from typing import Final

from flamestream.model.errors import Bug

MAX_NAME: Final = 800
_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+@:,~-]{0,254}")
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9_-]")


def check_name(name: str) -> str:
    """The name itself. Raises Bug if it cannot name an object: names are made by the engine, never taken from
    users unchecked."""
    if len(name) > MAX_NAME:
        raise Bug(f"object name of {len(name)} characters, more than {MAX_NAME}: {name[:80]!r}...")
    if not all(_PART.fullmatch(part) for part in name.split("/")):
        raise Bug(
            f"{name!r} cannot name an object: parts between '/' need letters, digits or one of _.=+@:,~- and "
            "no dot or sign in front"
        )
    return name


def plain(text: str) -> str:
    """`text` as it may stand inside a part. Not injective: for reading, never for telling two things
    apart."""
    return _NOT_PLAIN.sub("_", text)
