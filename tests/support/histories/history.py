"""History: what clients of a bank have done and been told, and its judgement by porcupine, a checker of histories that
nobody here wrote.

An operation is under way from `call` to `back`, and takes effect at one moment between the two. A history is right if
there is one order of its operations, each at such a moment, in which a serial bank gives all of their answers: that is
strict serializability, with all accounts as one object. What is promised less than that is said by operations that are
under way for longer, and what is promised more by what an operation `needs` before it.

| promise | as an operation |
|---|---|
| a transfer whose outcome was seen | from when it was sent, to that |
| a transfer whose outcome nobody has seen | for ever, with any outcome |
| what was acknowledged is before what is sent then | needs as many of each producer as had been acknowledged |
| a strict answer | from the question to the answer |
| a stale answer | from the beginning, and needs what its client has seen, or asked for by `at_least` |

Does not: know how a bank works (go/porcupine/main.go), or where operations come from.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from support.installing import by_go

SEARCH: Final = 30
"""Seconds that the search may take. What is not found out is no verdict."""
Outcome = Literal["", "committed", "refused"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """From an account to another."""

    source: str
    target: str
    amount: int


@dataclass(frozen=True, slots=True)
class Put:
    """An account has this from now on."""

    key: str
    value: int


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that a client does."""

    call: int
    back: int | None
    """None: it has not come back."""
    session: str = ""
    """Operations of one are counted together, for those that need some of them."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """How many operations of which sessions are before it."""
    moves: Transfer | None = None
    outcome: Outcome = ""
    left: int = 0
    """What a transfer that is committed leaves at its source."""
    puts: Put | None = None
    reads: Mapping[str, int] = field(default_factory=dict)
    """Accounts with what was seen there, all at one moment."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a history."""

    word: str
    """`Ok`, `Illegal`, or `Unknown`."""
    told: str = ""
    """Where it breaks."""


def verdict(operations: Iterable[Operation]) -> Verdict:
    """The judgement of these. Skips the test where the checker cannot be built."""
    program = by_go("porcupine", "checker of histories")
    given = json.dumps({"operations": [_plain(each) for each in operations]})
    done = subprocess.run(
        [program, "-within", f"{SEARCH}s"], input=given, capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    stuck = told.get("stuck")
    found = f"behind {told['ordered']} operations there is no place for {stuck}" if stuck else ""
    return Verdict(told["verdict"], found)


def _plain(operation: Operation) -> dict[str, Any]:
    """As the program reads it."""
    puts, moves = operation.puts, operation.moves
    return {
        "call": operation.call, "return": operation.back,
        "session": operation.session, "needs": dict(operation.needs),
        "puts": puts and {"key": puts.key, "value": puts.value},
        "moves": moves and {"source": moves.source, "target": moves.target, "amount": moves.amount},
        "outcome": operation.outcome, "left": operation.left, "reads": dict(operation.reads),
    }  # fmt: skip
