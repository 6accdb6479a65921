"""Globs over whole relative paths: which names a files source reads.

`**/` is any number of folders, `**` anything; `*` and `?` stay within one part, and so does a class like
`[a-z]` or `[!a]`.

>>> glob = Glob("**/*.py")
>>> glob.matches("a/b/c.py"), glob.matches("a/c.txt"), Glob("*.py").matches("a/c.py")
(True, False, False)

A regular expression of such a pattern tries again from every place where a star could end: `**a**b**c` takes
minutes for a name that a producer chooses. Here all places in the pattern where a name may have come to are
followed at once, so a name costs what it is long; each set of places is a number, and what follows it is
remembered.

Keeps: linear time. Does not: look at files (listing.py, files/s3.py).
"""

import re
from typing import Final

MAX_PATTERN: Final = 1024
REMEMBERED: Final = 4096
"""Steps; then they are forgotten, so a folder of odd names takes no memory."""
_TOKENS: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|.", re.DOTALL)
_STARS: Final = ("**/", "**", "*")


class Glob:
    """A pattern. Raises ValueError if it has a class that is none, or is too long."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise ValueError(f"a pattern has at most {MAX_PATTERN} characters, not {len(pattern)}")
        self._tokens: list[str] = _TOKENS.findall(pattern)
        self._classes = {token: _class(token) for token in self._tokens if len(token) > 2 and token[0] == "["}
        self._start = self._at(0)
        self._steps: dict[tuple[int, str], int] = {}

    def matches(self, name: str) -> bool:
        """Whether the pattern fits the whole of a name."""
        places, steps = self._start, self._steps
        for character in name:
            after = steps.get((places, character))
            places = self._step(places, character) if after is None else after
            if not places:
                return False
        return bool(places >> 2 * len(self._tokens))

    def _step(self, places: int, character: str) -> int:
        after = 0
        for number, token in enumerate(self._tokens):
            if places >> 2 * number & 1:
                after |= self._before(number, token, character)
            if places >> 2 * number & 2:  # inside of a folder's name
                after |= self._at(number) if character == "/" else 2 << 2 * number
        if len(self._steps) >= REMEMBERED:
            self._steps.clear()
        self._steps[places, character] = after
        return after

    def _before(self, number: int, token: str, character: str) -> int:
        """The places that `character` leads to from before the token."""
        match token:
            case "**/":
                return 0 if character == "/" else 2 << 2 * number
            case "**":
                return self._at(number)
            case "*":
                return 0 if character == "/" else self._at(number)
            case "?":
                return 0 if character == "/" else self._at(number + 1)
        its = self._classes.get(token)
        fits = character == token if its is None else its.match(character) is not None
        return self._at(number + 1) if fits else 0

    def _at(self, number: int) -> int:
        """Before token `number`, and before those behind it if it may be nothing."""
        # Two bits a token: before it, and inside of a folder's name that it has begun.
        places = 1 << 2 * number
        while number < len(self._tokens) and self._tokens[number] in _STARS:
            number += 1
            places |= 1 << 2 * number
        return places


def _class(token: str) -> re.Pattern[str]:
    body = token[2:-1] if token[1] == "!" else token[1:-1]
    escaped = re.sub(r"([\\\[&~|])", r"\\\1", body)  # what would mean more there
    try:
        return re.compile(f"[{'^' if token[1] == '!' else ''}{escaped}]", re.DOTALL)
    except re.error as error:
        raise ValueError(f"`pattern`: {token} is no class of characters: {error}") from None
