"""Conditionals: expressions whose value depends on a case.

>>> from types import SimpleNamespace as Sale
>>> much = when(field("cents") > 99).then("much").otherwise("little")
>>> much(Sale(cents=100)), much
('much', fs.when(fs.field("cents") > 99).then('much').otherwise('little'))

Keeps: only what is needed is computed: a case if none before it is true, a value if its case is.
"""

from dataclasses import dataclass
from typing import Any

from flamestream.model.expressions.expression import Expression, constant, truth
from flamestream.model.expressions.expression import field as field  # for the example above


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Conditional(Expression):
    """payload -> the value of the first case that is true, or another."""

    cases: tuple[tuple[Expression, Expression], ...]
    other: Expression

    @property
    def written(self) -> str:
        return (
            "fs."
            + "".join(f"when({case}).then({value})." for case, value in self.cases)
            + f"otherwise({self.other})"
        )

    @property
    def parts(self) -> tuple[Expression, ...]:
        return *(part for case in self.cases for part in case), self.other

    def __call__(self, payload: Any) -> Any:
        return next((value for case, value in self.cases if truth(case(payload), case)), self.other)(payload)


@dataclass(frozen=True, slots=True)
class When:
    """A case, whose value `then` says."""

    case: Expression
    before: tuple[tuple[Expression, Expression], ...] = ()

    def then(self, value: Any) -> "Then":
        """The value if the case is true."""
        return Then((*self.before, (self.case, constant(value))))


@dataclass(frozen=True, slots=True)
class Then:
    """Cases with their values; `otherwise` ends them."""

    cases: tuple[tuple[Expression, Expression], ...]

    def when(self, case: Any) -> When:
        """Another case, asked if none before it is true."""
        return When(constant(case), self.cases)

    def otherwise(self, value: Any) -> Expression:
        """The value if no case is true."""
        return Conditional(self.cases, constant(value))


def when(case: Any) -> When:
    """Where a value depends on a case: `fs.when(fs.field("cents") > 99).then("much").otherwise("little")`."""
    return When(constant(case))
