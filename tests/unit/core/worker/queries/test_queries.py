"""Queries at their gateway and at owners of keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.protocol.actions import Answered, NotAnswered
from flamestream.core.protocol.events import Queried
from flamestream.core.protocol.messages import PeerMessage
from flamestream.core.protocol.queries import (
    MOST_BYTES,
    Ask,
    Gather,
    Gathered,
    Left,
    Look,
    Lookup,
    Matching,
    Peek,
    Scan,
    Seen,
)
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.worker.queries.answers import AT_ONCE
from flamestream.core.worker.queries.gateway import MOST_OPEN, Queries, not_strict
from flamestream.model.ids import LayoutVersion, Slot, SourceName, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.payload import encode
from flamestream.model.time import FrontId, Time

ME, OTHER = WorkerId("w0"), WorkerId("w1")
LAYOUT = Layout(LayoutVersion(1), (ME, ME, OTHER, OTHER), (ME,), OTHER)
FRONT = FrontSettings(FrontId(0), SourceName("in"), timed=False)
SETTINGS = WorkerSettings("job", 4, (FRONT,))
TOO_MUCH = "the states are more than 4 MiB: ask for fewer keys at once"
MINE, THEIRS = Lookup(3, Slot(0), b"a"), Lookup(3, Slot(2), b"b")


@dataclass
class States:
    """A vertex whose states say what they were asked for."""

    size: int = 0
    looked: list[bytes] = field(default_factory=list)

    def states_at(self, keys: Sequence[bytes], cut: Time) -> list[bytes | None]:
        """Encoded, as of these."""
        self.looked += keys
        return [None if key == b"nothing" else encode(self._state(key, cut)) for key in keys]

    def _state(self, key: bytes, cut: Time) -> Any:
        return cut // 10 if key.startswith(b"tens") else "x" * self.size or (key, cut)


@dataclass
class Gateway:
    """A worker's queries, with what it has sent."""

    settings: WorkerSettings = SETTINGS
    states: Any = field(default_factory=States)
    sent: list[tuple[WorkerId, PeerMessage]] = field(default_factory=list)
    cuts: LiveCuts = field(default_factory=lambda: LiveCuts(Time(0)))

    def __post_init__(self) -> None:
        tell: Callable[[WorkerId, PeerMessage], None] = lambda to, message: self.sent.append((to, message))  # noqa: E731
        self.queries = Queries(ME, self.settings, {3: self.states}, self.cuts, tell)
        self.queries.begin(LAYOUT, Time(0))

    def runs(self, bound: Time = Time(0)) -> "Gateway":
        self.queries.replays(bound)
        return self

    def at(self, time: int, certain: int = 0) -> "Gateway":
        self.cuts.advance(Time(time))
        self.queries.advanced(Time(certain or time))
        return self

    def ask(self, *lookups: Lookup, strict: bool = True, at_least: int = 0, number: int = 1) -> "Gateway":
        self.queries.asked(Queried(number, lookups, strict, Time(at_least)))
        return self


def test_a_strict_query_goes_to_the_acker_once_minimal_time_is_above_the_bound() -> None:
    gateway = Gateway().runs(Time(50)).ask(MINE, THEIRS).at(50)
    assert gateway.sent == []
    assert gateway.at(51).sent == [(OTHER, Ask(1, [MINE, THEIRS], strict=True))]


def test_one_that_is_not_goes_to_the_one_owner_of_its_keys_at_once() -> None:
    gateway = Gateway().runs(Time(50)).ask(THEIRS, strict=False)
    assert gateway.sent == [(OTHER, Peek(1, Time(0), [THEIRS]))]


def test_but_where_there_are_two_owners_their_answer_would_be_torn() -> None:
    gateway = Gateway().runs().ask(MINE, THEIRS, strict=False)
    assert gateway.sent == [(OTHER, Ask(1, [MINE, THEIRS], strict=False))]


def test_what_has_to_be_in_the_answer_is_waited_for() -> None:
    gateway = Gateway().runs().ask(THEIRS, strict=False, at_least=70).at(90, certain=69)
    assert gateway.sent == [], "minimal time may be what fronts have promised, which a failure undoes"
    assert gateway.at(91, certain=70).sent == [(OTHER, Peek(1, Time(70), [THEIRS]))]


def test_an_answer_is_there_when_all_owners_have_answered_in_the_order_of_its_keys() -> None:
    gateway = Gateway().runs().at(9).ask(THEIRS, MINE)
    gateway.queries.take(ME, Seen(1, Time(9), [b"mine"]))
    assert gateway.queries.take_actions() == []
    gateway.queries.take(OTHER, Seen(1, Time(9), [None]))
    assert gateway.queries.take_actions() == [Answered(1, Time(9), [None, b"mine"])]


def test_an_owner_answers_for_its_own_keys_as_of_minimal_time_and_says_what_is_certain() -> None:
    owner = Gateway().at(9, certain=7)
    missing = replace_key(MINE, b"nothing")
    owner.queries.look(Look([(OTHER, Ask(1, [MINE, THEIRS, missing], strict=True))]))
    assert owner.sent == [(OTHER, Seen(1, Time(7), [encode((b"a", Time(9))), None]))]


def test_an_owner_of_none_of_the_keys_says_nothing() -> None:
    owner = Gateway().at(9)
    owner.queries.look(Look([(OTHER, Ask(1, [THEIRS], strict=True))]))
    assert owner.sent == []


def test_an_owner_that_is_behind_its_gateway_waits() -> None:
    owner = Gateway().at(9)
    owner.queries.take(OTHER, Peek(1, Time(10), [MINE]))
    assert owner.sent == []
    assert owner.at(12).sent == [(OTHER, Seen(1, Time(12), [encode((b"a", Time(12)))]))]


def test_states_that_are_too_much_are_not_sent() -> None:
    owner = Gateway(states=States(MOST_BYTES // 2)).at(9)
    owner.queries.look(Look([(OTHER, Ask(1, [MINE, MINE], strict=True))]))
    assert owner.sent == [(OTHER, Seen(1, Time(9), [], TOO_MUCH))]


def test_and_their_client_is_told_to_ask_for_less() -> None:
    gateway = Gateway().runs().at(9).ask(MINE)
    gateway.queries.take(ME, Seen(1, Time(9), [], TOO_MUCH))
    (told,) = gateway.queries.take_actions()
    assert isinstance(told, NotAnswered)
    assert not told.again
    assert "ask for fewer keys" in told.reason


def test_nobody_is_answered_before_the_attempt_runs_and_who_waits_is_told_when_it_is_over() -> None:
    gateway = Gateway().ask(MINE)
    assert gateway.queries.take_actions() == [NotAnswered(1, "the job recovers", again=True)]
    gateway.runs().at(9).ask(MINE).queries.begin(LAYOUT, Time(5))
    assert gateway.queries.take_actions() == [NotAnswered(1, "the job recovers", again=True)]
    gateway.queries.take(ME, Seen(1, Time(9), [b"late"]))
    assert gateway.queries.take_actions() == []


def test_who_has_left_is_forgotten() -> None:
    gateway = Gateway().runs().at(9).ask(MINE)
    gateway.queries.left(1)
    gateway.queries.take(ME, Seen(1, Time(9), [b"mine"]))
    assert gateway.queries.take_actions() == []


def test_open_queries_are_bounded() -> None:
    gateway = Gateway().runs()
    for number in range(MOST_OPEN + 1):
        gateway.ask(MINE, number=number)
    assert gateway.queries.take_actions() == [
        NotAnswered(MOST_OPEN, f"{MOST_OPEN} queries are open here", again=True)
    ]


def test_a_scan_is_asked_for_when_all_know_the_keys_and_its_pages_are_merged_in_their_order() -> None:
    gateway = Gateway().runs().at(9)
    scan = Scan(3, Matching(b""), b"", 3)
    gateway.queries.asked(Queried(1, [], strict=True, scan=scan))
    assert sorted(gateway.sent) == [(ME, Gather(1, scan)), (OTHER, Gather(1, scan))]
    gateway.sent.clear()
    gateway.queries.take(ME, Gathered(1))
    assert gateway.sent == []
    gateway.queries.take(OTHER, Gathered(1))
    assert gateway.sent == [(OTHER, Ask(1, [], strict=True))]
    gateway.queries.take(ME, Seen(1, Time(9), [b"A", b"C"], keys=[b"a", b"c"], upto=b"c"))
    gateway.queries.take(OTHER, Seen(1, Time(9), [b"B", b"D"], keys=[b"b", b"d"]))
    assert gateway.queries.take_actions() == [
        Answered(1, Time(9), [b"A", b"B", b"C"], keys=[b"a", b"b", b"c"], upto=b"c")
    ]


def test_who_leaves_a_scan_lets_others_forget_it() -> None:
    gateway = Gateway().runs().at(9)
    gateway.queries.asked(Queried(1, [], strict=False, scan=Scan(3, Matching(b""), b"", 3)))
    gateway.sent.clear()
    gateway.queries.left(1)
    assert sorted(gateway.sent) == [(ME, Left(1)), (OTHER, Left(1))]


def test_but_not_in_the_next_attempt_which_they_may_not_have_begun() -> None:
    gateway = Gateway().runs().at(9)
    gateway.queries.asked(Queried(1, [], strict=False, scan=Scan(3, Matching(b""), b"", 3)))
    gateway.sent.clear()
    gateway.queries.begin(LAYOUT, Time(5))
    assert gateway.sent == []


def test_no_answer_is_strict_where_a_failure_may_undo_what_was_shown() -> None:
    assert not not_strict(SETTINGS)
    assert "'in' is not journalled" in not_strict(replace(SETTINGS, fronts=(replace(FRONT, timed=True),)))
    assert "guarantee" in not_strict(replace(SETTINGS, skips=True))
    assert "guarantee" in not_strict(replace(SETTINGS, durable=False))
    (told,) = Gateway(replace(SETTINGS, durable=False)).runs().ask(MINE).queries.take_actions()
    assert isinstance(told, NotAnswered)
    assert not told.again


def replace_key(lookup: Lookup, key: bytes) -> Lookup:
    return Lookup(lookup.vertex, lookup.slot, key)


def waits(gateway: Gateway, number: int, key: bytes, known: bytes) -> None:
    """This worker, as the owner, is asked to wait for another state of a key."""
    gateway.queries.take(OTHER, Peek(number, Time(0), [Lookup(3, Slot(0), key)], known))


def test_a_state_that_is_known_is_told_once_it_is_another() -> None:
    gateway = Gateway().runs().at(20)
    waits(gateway, 1, b"tens", encode(2))
    gateway.at(25)
    assert gateway.sent == []
    gateway.at(30).at(40)
    assert gateway.sent == [(OTHER, Seen(1, Time(30), [encode(3)]))]


def test_another_state_is_told_at_once_and_so_is_one_that_is_no_more() -> None:
    gateway = Gateway().runs().at(20)
    for number, key, known in (
        (1, b"tens", b""),
        (2, b"nothing", encode(2)),
        (3, b"tens", encode("x" * 300)),
    ):
        waits(gateway, number, key, known)
    assert [(message.number, message.states) for _, message in gateway.sent] == [  # type: ignore[union-attr]
        (1, [encode(2)]), (2, [None]), (3, [encode(2)]),
    ]  # fmt: skip
    waits(gateway, 4, b"nothing", b"")
    gateway.at(30)
    assert len(gateway.sent) == 3, "there is still none"


def test_however_many_wait_a_step_of_minimal_time_looks_at_a_few_and_at_each_in_its_turn() -> None:
    gateway = Gateway().runs().at(20)
    for number in range(50):
        waits(gateway, number, b"tens%d" % number, encode(2))
    before = len(gateway.states.looked)
    gateway.at(30)
    assert len(gateway.states.looked) <= before + 2 * AT_ONCE
    for time in range(31, 31 + 50 // AT_ONCE):
        gateway.at(time)
    assert [message.number for _, message in gateway.sent] == list(range(50))  # type: ignore[union-attr]


def test_who_goes_is_waited_for_by_nobody() -> None:
    gateway = Gateway().runs().at(20)
    gateway.queries.asked(Queried(1, [THEIRS], strict=False, unlike=encode(2)))
    gateway.queries.left(1)
    assert [message for _, message in gateway.sent] == [
        Peek(1, Time(0), [THEIRS], encode(2)), *[Left(1)] * 2,
    ]  # fmt: skip
    waits(gateway, 1, b"tens", encode(2))
    waits(gateway, 2, b"tens", encode(2))
    gateway.queries.take(OTHER, Left(1))
    gateway.at(30)
    assert gateway.sent[3:] == [(OTHER, Seen(2, Time(30), [encode(3)]))]


def test_a_recovery_ends_all_waiting() -> None:
    gateway = Gateway().runs().at(20)
    waits(gateway, 1, b"tens", encode(2))
    gateway.queries.begin(LAYOUT, Time(20))
    gateway.runs().at(30)
    assert gateway.sent == []
