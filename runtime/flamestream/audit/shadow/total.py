"""The verdicts of a shadow's rounds, summed up, and in words.

A round that differs is no end: other results may be what the code is for.

Does not: compare (audit/canary.py).
"""

from dataclasses import dataclass, replace

from flamestream.audit.canary import Canary, counted, counts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """All that a shadow has found since it began."""

    epoch: int
    """The epoch with whose snapshot it began."""
    begun_anew: int = 0
    """How often it could not go on, and began with a newer snapshot: what lies between was not looked at."""
    records: int = 0
    equal: int = 0
    differ: int = 0
    only_before: int = 0
    only_after: int = 0
    new_errors: int = 0

    def plus(self, canary: Canary) -> "Total":
        """With another round."""
        return replace(
            self, records=self.records + canary.records, equal=self.equal + canary.equal,
            differ=self.differ + canary.differ, only_before=self.only_before + canary.only_before,
            only_after=self.only_after + canary.only_after, new_errors=self.new_errors + canary.new_errors,
        )  # fmt: skip

    def anew(self) -> "Total":
        """Behind another beginning."""
        return replace(self, begun_anew=self.begun_anew + 1)

    @property
    def differs(self) -> bool:
        """Whether anything was another, or an error."""
        return bool(self.differ or self.only_before or self.only_after or self.new_errors)

    def __str__(self) -> str:
        found = Canary(
            equal=self.equal, differ=self.differ, only_before=self.only_before, only_after=self.only_after,
            new_errors=self.new_errors,
        )  # fmt: skip
        gaps = f"; begun anew {counted(self.begun_anew, 'time')}" if self.begun_anew else ""
        return f"since epoch {self.epoch}: {counted(self.records, 'record')}, {counts_of(found)}{gaps}"


@dataclass(frozen=True, slots=True)
class Round:
    """The findings of a shadow from one place to the next."""

    canary: Canary
    """Its `epoch` is that of the commit up to which it goes."""
    behind: int
    """Records below the newest committed cut that it has not come to."""
    total: Total

    def __str__(self) -> str:
        canary = self.canary
        said = (
            f"shadow: {counted(canary.records, 'record')} towards epoch {canary.epoch}, with a state of its own: "
            f"{counts_of(canary)}; {canary.micros_after:.0f} us a record; {counted(self.behind, 'record')} behind; "
            f"{self.total}"
        )
        return "\n".join([said, *canary.notes, *(f"  {each}" for each in canary.differences)])
