"""Message ids: 64 bits, unique in an attempt, and mixed so that no small set of them cancels under XOR.

Unique is not enough: the counters 4, 5, 6 and 7 XOR to zero, and the acker would take four messages in flight
for none. The mix is the finaliser of splitmix64, a bijection on 64 bits, so ids stay unique.

>>> ids = MessageIds(attempt=1, sender=0)
>>> a, b, c, d = (ids.next() for _ in range(4))
>>> a ^ b ^ c ^ d != 0
True
"""

from flamestream.model.ids import MessageId

_MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """A non-linear bijection on 64 bits (splitmix64's finaliser)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


class MessageIds:
    """The ids of one sender in one attempt."""

    def __init__(self, attempt: int, sender: int) -> None:
        # and 36 bits of counter: 6e10 messages an attempt
        # 12 bits are enough: a layout has no more workers than slots (healing.py), which are 4096 at most.
        # The attempt's 16 may come round: no acker outlives its attempt.
        self._base = (attempt & 0xFFFF) << 48 | (sender & 0xFFF) << 36
        self._count = 0

    def next(self) -> MessageId:
        """A new id, never zero in practice (one in 2^64)."""
        self._count += 1
        return MessageId(mix(self._base + self._count))
