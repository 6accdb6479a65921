"""SplitMix64: a small generator of random numbers, the same on every machine and version of Python.

The specification's Java draws from a `SplittableRandom`, which is this algorithm. Numbers are not Java's: its
seeds are not said.

Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
"""

from itertools import product
from string import ascii_lowercase
from typing import Final

_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_TRIPLES: Final = tuple(map("".join, product(ascii_lowercase, repeat=3)))
"""All words of three letters. 64 bits hold four of them, so a text of 68 letters costs 6 numbers instead of
68."""


def mixed(number: int) -> int:
    """64 bits in which each bit of `number` counts."""
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


class SplitMix:
    """A sequence of random numbers that depends on `seed` and `stream` alone."""

    __slots__ = ("_state",)

    def __init__(self, seed: int, stream: int) -> None:
        # Mixed twice: streams that stand beside each other would else be one sequence, shifted by a step.
        self._state = mixed((mixed(seed & _MASK) + stream * _GOLDEN) & _MASK)

    def bits(self) -> int:
        """64 random bits."""
        self._state = (self._state + _GOLDEN) & _MASK
        return mixed(self._state)

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1, each as likely to one part in 2**64 / bound."""
        return (self.bits() * bound) >> 64

    def fraction(self) -> float:
        """A number from 0 to 1, without 1."""
        return (self.bits() >> 11) * 2.0**-53

    def letters(self, length: int) -> str:
        """A word of so many letters from a to z."""
        words = ""
        while len(words) < length:
            bits = self.bits()
            for _ in range(4):
                bits, place = divmod(bits, len(_TRIPLES))
                words += _TRIPLES[place]
        return words[:length]
