"""Operators: Python's signs as calls of one method each, for what is built by writing them.

Does not: have `and`, `or`, `not`, `in` and `is`, which Python gives to nobody.
"""

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Operators(Generic[T]):
    """Python's operators, all by way of three methods that a subclass has."""

    __slots__ = ()

    def signed(self, sign: str, other: Any) -> T:
        """`self sign other`."""
        raise NotImplementedError

    def behind(self, sign: str, other: Any) -> T:
        """`other sign self`."""
        raise NotImplementedError

    def alone(self, sign: str) -> T:
        """`sign self`."""
        raise NotImplementedError

    def __add__(self, other: Any) -> T:
        return self.signed("+", other)

    def __radd__(self, other: Any) -> T:
        return self.behind("+", other)

    def __sub__(self, other: Any) -> T:
        return self.signed("-", other)

    def __rsub__(self, other: Any) -> T:
        return self.behind("-", other)

    def __mul__(self, other: Any) -> T:
        return self.signed("*", other)

    def __rmul__(self, other: Any) -> T:
        return self.behind("*", other)

    def __truediv__(self, other: Any) -> T:
        return self.signed("/", other)

    def __rtruediv__(self, other: Any) -> T:
        return self.behind("/", other)

    def __floordiv__(self, other: Any) -> T:
        return self.signed("//", other)

    def __rfloordiv__(self, other: Any) -> T:
        return self.behind("//", other)

    def __mod__(self, other: Any) -> T:
        return self.signed("%", other)

    def __rmod__(self, other: Any) -> T:
        return self.behind("%", other)

    def __and__(self, other: Any) -> T:
        return self.signed("&", other)

    def __rand__(self, other: Any) -> T:
        return self.behind("&", other)

    def __or__(self, other: Any) -> T:
        return self.signed("|", other)

    def __ror__(self, other: Any) -> T:
        return self.behind("|", other)

    def __eq__(self, other: Any) -> T:  # type: ignore[override]
        return self.signed("==", other)

    def __ne__(self, other: Any) -> T:  # type: ignore[override]
        return self.signed("!=", other)

    def __lt__(self, other: Any) -> T:
        return self.signed("<", other)

    def __le__(self, other: Any) -> T:
        return self.signed("<=", other)

    def __gt__(self, other: Any) -> T:
        return self.signed(">", other)

    def __ge__(self, other: Any) -> T:
        return self.signed(">=", other)

    def __neg__(self) -> T:
        return self.alone("-")

    def __invert__(self) -> T:
        return self.alone("~")

    def __hash__(self) -> int:
        raise NotImplementedError
