"""What is decided under a fence: by whoever is first, for ever, and by nobody who was overtaken."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from flamestream.fenced.decisions import Decisions
from flamestream.model.errors import Corrupt, Fenced
from flamestream.model.ids import Attempt

A1, A2, A3, A4 = (Attempt(number) for number in (1, 2, 3, 4))


@dataclass
class Folder:
    announced: set[Attempt] = field(default_factory=set)
    decided: dict[Attempt, tuple[int, ...]] = field(default_factory=dict)
    written: dict[Attempt, int] = field(default_factory=dict)


class Opener(Decisions[Attempt, tuple[int, ...]]):
    """One process. `before` is called before the step of that name, once: what others do meanwhile."""

    _where = "memory"

    def __init__(self, folder: Folder, **before: Callable[[], object]) -> None:
        self.folder, self.before = folder, before

    def open(self, fence: Attempt) -> tuple[int, ...]:
        def counted(found: tuple[Attempt, tuple[int, ...]] | None) -> tuple[int, ...]:
            self._step("count")
            return () if found is None else (*found[1], self.folder.written.get(found[0], 0))

        return self.decide(fence, counted)

    def _step(self, name: str) -> None:
        self.before.pop(name, lambda: None)()

    def _announce(self, fence: Attempt) -> None:
        self._step("announce")
        self.folder.announced.add(fence)

    def _announced(self) -> Iterable[Attempt]:
        self._step("check")
        return self.folder.announced

    def _decided(self) -> Iterable[Attempt]:
        return list(self.folder.decided)

    def _decision(self, fence: Attempt) -> tuple[int, ...] | None:
        self._step(f"read {fence}")
        return self.folder.decided.get(fence)

    def _create(self, fence: Attempt, decision: tuple[int, ...]) -> None:
        self._step("create")
        self.folder.decided.setdefault(fence, decision)

    def _replaced(self, newest: Attempt, fence: Attempt) -> str:
        return f"{newest} has replaced {fence}"


@pytest.fixture
def folder() -> Folder:
    """Attempt 1 has opened it and written 10."""
    made = Folder()
    Opener(made).open(A1)
    made.written[A1] = 10
    return made


def test_a_decision_has_what_the_one_before_has_and_what_was_written_since(folder: Folder) -> None:
    assert Opener(folder).open(A2) == (10,)
    folder.written |= {A1: 99, A2: 20}  # a zombie of attempt 1 goes on
    assert Opener(folder).open(A4) == (10, 20)


def test_who_comes_second_under_a_fence_takes_what_was_decided(folder: Folder) -> None:
    Opener(folder).open(A2)
    folder.written[A1] = 99
    assert Opener(folder).open(A2) == (10,)


def test_of_two_that_count_at_once_the_first_decides_for_both(folder: Folder) -> None:
    def other() -> None:
        assert Opener(folder).open(A2) == (10,)
        folder.written[A1] = 99

    assert Opener(folder, count=other).open(A2) == (10,)


@pytest.mark.parametrize("step", ["announce", "check", "read 2", "count", "create"])
def test_who_is_overtaken_at_any_step_is_refused_and_changes_nothing(folder: Folder, step: str) -> None:
    found = list[tuple[int, ...]]()
    with pytest.raises(Fenced, match="3 has replaced 2"):
        Opener(folder, **{step: lambda: found.append(Opener(folder).open(A3))}).open(A2)
    folder.written |= {A2: 99, A3: 30}
    assert (found, Opener(folder).open(A4)) == ([(10,)], (10, 30))


def test_a_decision_that_a_newer_opening_removed_while_it_was_read_is_no_damage(folder: Folder) -> None:
    class Lagging(Opener):
        def _decided(self) -> Iterable[Attempt]:
            """A file system that still lists what is gone."""
            return [A1]

    def overtaken() -> None:
        Opener(folder).open(A3)
        del folder.decided[A1]

    with pytest.raises(Fenced):
        Lagging(folder, **{"read 1": overtaken}).open(A2)


def test_a_decision_that_vanishes_without_a_newer_fence_is_damage(folder: Folder) -> None:
    class Forgetful(Opener):
        def _create(self, fence: Attempt, decision: tuple[int, ...]) -> None:
            """Somebody deletes it at once."""

    with pytest.raises(Corrupt, match="gone at once"):
        Forgetful(folder).open(A2)


def test_decisions_that_cannot_be_read_are_not_looked_for_for_ever(folder: Folder) -> None:
    class Blind(Opener):
        def _decision(self, fence: Attempt) -> tuple[int, ...] | None:
            return None

    with pytest.raises(Corrupt, match="vanish"):
        Blind(folder).newest()
