"""Damages: what can have gone wrong with a past run, and what an audit has to say of each.

    for damage in DAMAGES:
        past = damage.past()
        verdict = ...                  # of `past`, left in whatever sink is to be tried
        assert findings == damage.says

Counts are said by hand, from what the run is: 40 lines of ten words in turn, four a run, so that word w has
lines w, w+10, w+20 and w+30; of the words, ash and larch share slot 7, cedar and pine slot 10, oak and rowan
slot 9.

Keeps: a damage changes what was given, recorded or committed, never how a sink keeps it, so that each can be
tried at every sink.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from flamestream.model.ids import Slot
from flamestream.model.meta import child, meta_of
from support.runs.changes import (
    Change,
    a_call_again,
    again,
    all_again,
    both,
    drained,
    exchanged,
    foreign,
    holds,
    in_slot,
    line_of_another_word,
    more_lines,
    no_input,
    nothing,
    of_another_job,
    only,
    recorded_beyond,
    recorded_twice,
    replaced,
    slots_exchanged,
    uncommitted,
    values_exchanged,
    without,
    without_last_line,
    without_lines,
    without_runs,
    without_slots,
    without_worker,
)
from support.runs.past_run import (
    FRONT,
    Given,
    PastRun,
    finished,
    going_on,
    run_time,
    slot_of_word,
)

Says = dict[str, int]
"""Of the counts lost, not_due, doubled, foreign, misplaced, reordered, missing and unexpected those that are
not 0."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One way to be wrong."""

    name: str
    says: Says
    change: Change
    before: Callable[[], PastRun] = finished

    def past(self) -> PastRun:
        """The run with the damage done."""
        past = self.before()
        self.change(past)
        return past


ASH, OAK, BIRCH = slot_of_word("ash"), slot_of_word("oak"), slot_of_word("birch")
_STRANGE = Given(child(meta_of(run_time(9), 3), 7), ASH, ("ash", 5))
_LATER = Given(meta_of(run_time(99), 0), ASH, ("ash", 5))
_OTHERS = [Given(meta_of(run_time(50), place), Slot(5), ("zelkova", place + 1)) for place in range(3)]
_thousand = partial(finished, lines=1000)
_timed = partial(finished, "timed", 256)
_socket = partial(finished, "socket")

OUTPUT = [
    Damage("first item lost", {"lost": 1}, without(0)),
    Damage("middle item lost", {"lost": 1}, without(21)),
    Damage("last item lost", {"lost": 1}, without(39)),
    Damage("last item of every slot lost", {"lost": 7}, without(31, 32 + 5, 33, 34, 38, 35, 39)),
    Damage("first run lost", {"lost": 4}, only(slice(1, None))),
    Damage("last run lost", {"lost": 4}, only(slice(9))),
    Damage("second half lost", {"lost": 20}, only(slice(5))),
    Damage("a silent slot", {"lost": 8}, without_slots(OAK)),
    Damage("a whole worker's output lost", {"lost": 24}, without_worker),
    Damage("all slots silent", {"lost": 40}, only(slice(0))),
    Damage("doubled within a bundle", {"doubled": 1}, again(9, 2, 1)),
    Damage("doubled in the next bundle", {"doubled": 1}, again(9, 3)),
    Damage("doubled at the end", {"doubled": 1}, again(0, 9)),
    Damage("a call doubled", {"doubled": 4}, a_call_again),
    Damage("all output doubled", {"doubled": 40}, all_again),
    Damage("three times", {"doubled": 2}, both(again(0, 5), again(0, 9))),
    Damage("swapped within a key", {"reordered": 1}, exchanged(1, 11)),
    Damage("swapped across keys of a slot", {"reordered": 1}, exchanged(0, 5)),
    Damage("swapped across runs", {"reordered": 2}, exchanged(0, 10)),
    Damage("values swapped across slots", {"lost": 2, "foreign": 2}, values_exchanged),
    Damage("places swapped across slots", {"misplaced": 2}, slots_exchanged),
    Damage("wrong value", {"lost": 1, "foreign": 1}, replaced(0, payload=("ash", 2))),
    Damage("equal value of another type", {"lost": 1, "foreign": 1}, replaced(0, payload=("ash", True))),
    Damage("wrong key", {"lost": 1, "foreign": 1}, replaced(0, payload=("oak", 1), slot=OAK)),
    Damage("wrong slot", {"misplaced": 1}, replaced(1, slot=Slot(2))),
    Damage("a key in a wrong slot", {"misplaced": 4}, in_slot("birch", 2)),
    Damage("wrong time", {"lost": 1, "foreign": 1}, replaced(39, meta=meta_of(run_time(10), 0))),
    Damage("foreign item", {"foreign": 1}, foreign(_STRANGE)),
    Damage("foreign item behind the end", {"foreign": 1}, foreign(_LATER)),
    Damage("foreign items in a slot of their own", {"foreign": 3}, foreign(*_OTHERS)),
    Damage("another job's output", {"lost": 40, "foreign": 40}, of_another_job),
    Damage(
        "lost, doubled and foreign at once",
        {"lost": 1, "doubled": 1, "foreign": 1},
        both(again(9, 3), without(0), foreign(_LATER)),
    ),
]
"""Of a completed job: nothing but the output is damaged. To be tried at every sink."""

INPUT = [
    Damage("hole in the journal", {"missing": 4, "lost": 4, "foreign": 8}, without_runs([5])),
    Damage("hole at the journal's beginning", {"missing": 4, "lost": 12, "foreign": 16}, without_runs([0])),
    Damage("hole at the journal's end", {"missing": 4, "foreign": 4}, without_runs([9])),
    Damage("empty journal", {"missing": 40, "foreign": 40}, without_runs(range(10))),
    Damage("hole in journal and output", {"missing": 4}, without_runs([5], given=True)),
    Damage("end gone from journal and output", {"missing": 4}, without_runs([9], given=True)),
    Damage("all gone from journal and output", {"missing": 40}, without_runs(range(10), given=True)),
    Damage(
        "offsets 300-599 gone from both",
        {"missing": 300},
        without_runs(range(75, 150), given=True),
        _thousand,
    ),
    Damage("two holes in both", {"missing": 8}, without_runs([2, 7], given=True)),
    Damage(
        "hole in a journal with payloads", {"missing": 4, "lost": 4, "foreign": 8}, without_runs([5]), _socket
    ),
    Damage("hole in payloads and output", {"missing": 4}, without_runs([5], given=True), _socket),
    Damage("a run recorded twice", {"unexpected": 4, "lost": 4}, recorded_twice),
    Damage("records recorded twice", {"unexpected": 4, "lost": 20, "foreign": 16}, recorded_beyond),
    Damage("a line of the source is another", {"lost": 8, "foreign": 8}, line_of_another_word),
    Damage("more lines in a source that was through", {"unexpected": 2}, more_lines, _timed),
    Damage("last line gone from the source", {"missing": 1, "foreign": 1}, without_last_line, _timed),
    Damage("all lines gone from the source", {"missing": 256, "foreign": 256}, without_lines, _timed),
    Damage(
        "last line gone from source and output", {"missing": 1}, both(without_last_line, without(255)), _timed
    ),
]
"""Of a completed job: the record of its input, or the source behind it, is damaged."""

BOUNDS = [
    Damage("going on, nothing out", {"lost": 24, "not_due": 16}, only(slice(0)), going_on),
    Damage("going on, first item lost", {"lost": 1, "not_due": 8}, without(0), going_on),
    Damage("going on, last item below the bound lost", {"lost": 1, "not_due": 8}, without(23), going_on),
    Damage("going on, a silent slot", {"lost": 4, "not_due": 10}, without_slots(OAK), going_on),
    Damage("going on, a whole worker silent", {"lost": 13, "not_due": 14}, without_worker, going_on),
    Damage("going on, a hole above the bound", {"lost": 1, "not_due": 8}, without(26), going_on),
    Damage("going on, last run below the bound lost", {"lost": 4, "not_due": 16}, only(slice(5)), going_on),
    Damage("going on, doubled above the bound", {"doubled": 1, "not_due": 8}, again(31, 7), going_on),
    Damage(
        "going on, wrong value above the bound",
        {"foreign": 1, "not_due": 9},
        replaced(31, payload=("birch", 9)),
        going_on,
    ),
    Damage("going on, foreign item above the bound", {"foreign": 1, "not_due": 8}, foreign(_LATER), going_on),
    Damage(
        "going on, a hole in journal and output",
        {"missing": 4},
        without_runs([2], given=True),
        partial(going_on, delivered=10),
    ),
    Damage(
        "going on, 1,000 in and nothing out",
        {"lost": 1000},
        only(slice(0)),
        partial(going_on, lines=1000, committed=250),
    ),
    Damage(
        "going on, timed, nothing out",
        {"lost": 128},
        only(slice(0)),
        partial(going_on, "timed", 256, committed=2),
    ),
    Damage("a batch that has no epochs, last run lost", {"lost": 4}, both(uncommitted, only(slice(9)))),
    Damage("drained, nothing out", {"lost": 40}, both(drained, only(slice(0))), going_on),
    Damage("drained, last run lost", {"lost": 4}, both(drained, only(slice(9))), finished),
    Damage(
        "never committed, a hole in the output",
        {"lost": 1, "not_due": 8},
        both(uncommitted, without(26)),
        going_on,
    ),
    Damage(
        "two phases, lost below what is held",
        {"lost": 4, "not_due": 24},
        both(holds(slice(4, 6)), only(slice(3))),
        going_on,
    ),
    Damage(
        "two phases, a hole in what is held",
        {"lost": 1, "not_due": 8},
        both(holds(slice(4, 6)), without(16)),
        going_on,
    ),
]
"""Of a job that has not completed. Where something is not due, that is said too."""

RIGHT = [
    Damage("completed", {}, nothing),
    Damage("completed, timed", {}, nothing, _timed),
    Damage("completed, payloads in the journal", {}, nothing, _socket),
    Damage("going on", {"not_due": 8}, nothing, going_on),
    Damage("going on, timed", {}, nothing, partial(going_on, "timed", 256, committed=2, delivered=3)),
    Damage("going on, up to the bound", {"not_due": 16}, only(slice(6)), going_on),
    Damage("never committed, nothing out", {"not_due": 40}, both(uncommitted, only(slice(0))), going_on),
    Damage("drained", {}, drained),
    Damage(
        "two phases, held output has not left",
        {"not_due": 24},
        both(holds(slice(4, 6)), only(slice(4))),
        going_on,
    ),
    Damage("nothing entered", {}, no_input),
]
"""No damage: an audit that finds something here is wrong."""

DAMAGES = [*OUTPUT, *INPUT, *BOUNDS]
assert FRONT == 0, "what is said above of times"
