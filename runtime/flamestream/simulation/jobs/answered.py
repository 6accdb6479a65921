"""Jobs for the simulator whose transactions are begun by what the outside answers.

What an order takes from an account is held, somebody outside is asked, and the answer settles it: it goes on, or back,
or both in part. The outside may answer twice, so that two would settle one, or not at all; and both stand among the
transactions that come without a question, on the same few accounts.

Keeps: all amounts together are nothing, whichever transactions were committed. Does not: say how the outside answers
(outside/services.py).
"""

from random import Random
from typing import Any

from flamestream.model.stream import Stream
from flamestream.model.tables.ledger import Table
from flamestream.model.tables.transaction import Abort, State
from flamestream.simulation.graphs import (
    DEAD_LETTERS,
    LETTERS,
    Payload,
    SimJob,
    concatenation,
    digest,
    key_of,
    rekey,
    scatter,
    source_streams,
)
from flamestream.simulation.jobs.bank import JUDGED, drawn_patience, drawn_record
from flamestream.simulation.jobs.calls import drawn_call

BANK = "bank"
"""Whoever brings an amount has it from here: no other account may be below nothing."""


def answered_job(rng: Random) -> SimJob:
    """Any of them, with calls that are made once at most or once at least."""
    return _job(rng, rng.choice(["again", "again", "never"]))


def answered_again_job(rng: Random) -> SimJob:
    """Calls that are made once at least."""
    return _job(rng, "again")


def _job(rng: Random, doubt: Any) -> SimJob:
    graph, stream, sources = source_streams(rng, "answered")
    accounts = graph.table("accounts", initial=int, check=lambda key, amount: amount >= 0 or key == BANK)
    if rng.random() < 0.5:
        stream = rng.choice([scatter, rekey, concatenation])(rng, stream)
    its = _Orders(accounts)
    orders, beside = stream.map(_numbered).broadcast(2)
    if rng.random() < 0.7:
        orders = orders.transact(its.hold).committed
    answers = orders.call(drawn_call(rng, doubt), key=key_of, name="asked")
    if rng.random() < 0.5:  # an answer is final; what folds make of several is taken back
        answers = rng.choice([scatter, _among_others])(rng, answers)
    settled = answers.transact(its.settle)
    beside.filter(lambda order: digest(order[1]) < "8").transact(its.move).committed.sink(
        "beside", key=key_of
    )
    settled.committed.sink("out", key=key_of)
    settled.aborted.map(lambda a: (a.transaction[0], a.reason)).sink("refused", key=key_of)
    accounts.changes().map(lambda w: (w.key, f"{w.before} {w.after}")).sink("balances", key=key_of)
    return SimJob(
        graph, DEAD_LETTERS, drawn_record(rng), sources, patience=drawn_patience(rng), judged=JUDGED
    )


class _Orders:
    """Functions over one table, which has what is held, too."""

    def __init__(self, accounts: Table[str, int]) -> None:
        self._accounts = accounts

    def move(self, state: State, order: Payload) -> Payload:
        """An order that nobody has to be asked about."""
        account, number = order
        amount = _amount(number)
        self._pay(state, BANK if amount % 2 else account, LETTERS[amount % 16], amount)
        return account, f"{number}{state[self._accounts, account]}"

    def hold(self, state: State, order: Payload) -> Payload:
        """An order that waits for an answer: its amount is nobody's until then."""
        account, number = order
        self._pay(state, BANK if _amount(number) % 2 else account, f"held {number}", _amount(number))
        return order

    def settle(self, state: State, answer: Payload) -> Payload:
        """The answer says how much goes on and how much back, and who else is read for that."""
        account, text = answer
        chance = int(digest(text), 36)
        if chance % 13 == 12:
            raise ValueError(f"nobody settles {text}")
        held = f"held {text[:4]}"
        amount = state[self._accounts, held] or chance % 5
        if chance % 7 == 6 or not amount:
            raise Abort("nothing is held")
        source = held if state[self._accounts, held] else account
        self._pay(state, source, LETTERS[state[self._accounts, account] % 16], chance % (amount + 1))
        self._pay(state, source, account, amount - chance % (amount + 1))
        if source == held:
            del state[self._accounts, held]
        return account, f"{text}{state[self._accounts, account]}"

    def _pay(self, state: State, source: str, target: str, amount: int) -> None:
        state[self._accounts, source] -= amount
        state[self._accounts, target] += amount


def _numbered(payload: Payload) -> Payload:
    """Short enough for an answer to name it."""
    return payload[0], digest(payload[1])[:4]


def _amount(number: str) -> int:
    return int(digest(number), 36) % 20


def _among_others(rng: Random, answers: Stream[Payload]) -> Stream[Payload]:
    """Each answer names its order, and all before it of the account."""
    return answers.reduce(
        key=key_of, initial=str, combine=lambda text, answer: digest(text + answer[1]),
        emit=lambda text, answer: (answer[0], answer[1][:4] + text),
    )  # fmt: skip
