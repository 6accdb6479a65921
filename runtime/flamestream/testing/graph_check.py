"""The check of a graph: drawn records, drawn schedules, and the results of the simulator held to the
reference interpreter.

Four comparisons for each example, the cheapest first; the first difference ends it, is shrunk by hypothesis,
and told:

    each function is called twice     one that depends on clock or chance, or changes its input; a `merge`
                                      that is none
    no error items                    what a function raises, unless they are meant (`on_error="dead-letter"`)
    another process gives the same    the order of a set, a module's state, a day's date
    so does a job in the simulator    anything else that comes out otherwise on several workers, behind
                                      crashes, in another order

Under `strong-productions` a chain of functions is asked once for each of its inputs, as a job has it, and
only what is made of its answers is compared.

Does not: know how a job may run (schedule.py).
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, Final, Literal

from flamestream.core.dataflow.twice import twice
from flamestream.lists import answered, runs_of
from flamestream.model import payload as codec
from flamestream.model.calls.productions import with_productions
from flamestream.model.errors import GraphError, PayloadError, UserError
from flamestream.model.failure import shortened, told
from flamestream.model.graph import Graph
from flamestream.model.payload import ErrorValue
from flamestream.model.quoted import plain
from flamestream.reference import errors_of, interpret
from flamestream.simulation.settings import GUARANTEES, STRONG
from flamestream.simulation.world import SimulationFailure
from flamestream.testing.merges import merges_checked
from flamestream.testing.other_process import Encoded, OtherProcess, encoded
from flamestream.testing.schedule import Schedule

SHOWN: Final = 2_000
"""Characters of a source's records in a message."""
Records = Mapping[str, Sequence[Any]]


class CheckFailed(AssertionError):
    """A graph does not give the same results each time. The message says which sink or function, for which
    records."""


def check(
    graph: Graph, *, examples: int = 10, records: int = 20, workers: int = 3, seed: int | None = None,
    guarantees: Sequence[str] | None = None, on_error: Literal["fail", "dead-letter"] = "fail",
    other_process: bool = True, **sources: Any,
) -> None:  # fmt: skip
    """Run `graph` on `examples` drawn inputs, each as a job with a drawn schedule in the simulator, and
    compare every byte of its results with the reference interpreter's.

    `sources`: for each source a hypothesis strategy of its records, or of lists of them, or a list of
    records. `records`: the most of a source where the strategy is of single ones. `workers`: the most of a
    job. `guarantees`: those that jobs ask for, all that the graph can have if not said. `on_error="fail"`: an
    error item is a failure too. `other_process=False` leaves out the comparison with another process, for
    graphs that cannot be copied to one. `seed` makes the same examples again. Raises CheckFailed with the
    smallest input that was found, and GraphError for a source without records, or a guarantee that is none or
    that the graph cannot have.
    """
    __tracebackhide__ = True
    if graph.calls:
        raise GraphError(
            f"graph {graph.name!r} has calls ({', '.join(graph.calls)}), which a simulated job cannot make: give "
            "check the parts before and behind them, as graphs of their own"
        )
    names = [source.name for source in graph.validated().sources]
    if missing := sorted(set(names) ^ sources.keys()):
        raise GraphError(
            f"graph {graph.name!r} has the sources {', '.join(map(repr, names))}: give each its records, "
            f"and {missing[0]!r}"
        )
    guarantees, strong = _promised(graph, guarantees)
    seed = secrets.randbits(32) if seed is None else seed
    with ExitStack() as stack:
        forms = [
            None
            if form is None
            else _Form(form, stack.enter_context(OtherProcess(form)) if other_process else None)
            for form in (graph if set(guarantees) - {STRONG} else None, strong)
        ]
        example = _Example(graph, on_error, *forms)
        try:
            _draw(
                example,
                {name: sources[name] for name in names},
                (examples, records, workers, seed),
                guarantees,
            )
        except CheckFailed as failed:
            raise CheckFailed(f"{failed}\n  again with: check(..., seed={seed})") from None


def _promised(graph: Graph, guarantees: Sequence[str] | None) -> tuple[Sequence[str], Graph | None]:
    """The guarantees to draw from, and the graph as `strong-productions` runs it if that is one."""
    if unknown := sorted(set(guarantees or ()) - set(GUARANTEES)):
        raise GraphError(f"guarantee {unknown[0]!r} is none of {', '.join(GUARANTEES)}")
    if guarantees is not None and STRONG not in guarantees:
        return guarantees, None
    try:
        return guarantees or GUARANTEES, with_productions(graph)
    except GraphError:
        if guarantees is not None:
            raise
        return [each for each in GUARANTEES if each != STRONG], None


def _draw(
    example: "_Example",
    sources: Mapping[str, Any],
    numbers: tuple[int, int, int, int],
    guarantees: Sequence[str],
) -> None:
    """Let hypothesis draw the examples, and shrink one that fails."""
    try:
        import hypothesis  # an extra; nobody else needs it
        from hypothesis import strategies as st
    except ImportError:
        raise UserError("check needs the package hypothesis: pip install 'flamestream[testing]'") from None
    examples, records, workers, seed = numbers
    # No database, no deadline and no other phases: the seed alone says which examples there are.
    settings = hypothesis.settings(
        max_examples=examples, deadline=None, database=None, report_multiple_bugs=False, print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck), verbosity=hypothesis.Verbosity.quiet,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    )  # fmt: skip

    def lists(records_of: Any) -> Any:
        if not isinstance(records_of, st.SearchStrategy):
            return st.just(list(records_of))
        # a list is no payload, so it is several records
        simplest = hypothesis.find(records_of, lambda _: True, settings=settings)
        if isinstance(simplest, list):
            return records_of
        # left to itself, hypothesis draws few
        several = st.lists(records_of, min_size=records // 2, max_size=records)
        return st.lists(records_of, max_size=records) | several

    schedules = st.builds(
        Schedule,
        st.sampled_from(list(guarantees)),
        st.integers(1, workers),
        st.booleans(),
        st.integers(0, (1 << 32) - 1),
    )
    inputs = st.fixed_dictionaries({name: lists(records_of) for name, records_of in sources.items()})
    run = hypothesis.seed(seed)(settings(hypothesis.given(inputs, schedules)(example.run)))
    try:
        run()
    except hypothesis.errors.Flaky:  # it did not fail again: whatever differs is not the input
        assert example.last is not None, "something has failed"
        raise CheckFailed(
            f"{example.last}\n  not each time: a function depends on something that is not its input"
        ) from None
    if example.refusal is not None:
        raise example.refusal


class _Form:
    """A graph as jobs run it, and as it is compared with."""

    def __init__(self, graph: Graph, other: OtherProcess | None) -> None:
        self.graph, self.other = graph, other
        self.doubled = twice(merges_checked(graph))


class _Example:
    """The comparison for one input and one schedule."""

    def __init__(self, graph: Graph, on_error: str, usual: _Form | None, strong: _Form | None) -> None:
        self._graph, self._on_error = graph, on_error
        self._usual, self._strong = usual, strong
        self.last: CheckFailed | None = None
        self.refusal: UserError | None = None
        """The reason why this graph or these records cannot be compared."""

    def run(self, records: Records, schedule: Schedule) -> None:
        """Raises CheckFailed for the first difference."""
        if self.refusal is not None:
            return  # no example can be compared
        try:
            self._compare(records, schedule)
        except CheckFailed as failed:
            self.last = failed
            raise
        except UserError as refusal:
            # Not raised: hypothesis would take it for a failure, and shrink it.
            self.refusal = refusal

    def _compare(self, records: Records, schedule: Schedule) -> None:
        for name, of_source in records.items():
            _check_records(name, of_source)
        form = self._strong if schedule.guarantee == STRONG else self._usual
        assert form is not None, "there is one for each guarantee that is drawn"
        graph, errors = form.graph, errors_of(form.graph)
        runs, results = answered(graph, runs_of(graph, _interleaved(records, Random(schedule.seed))))
        expected = encoded(results)
        doubled = interpret(form.doubled, runs)
        # What is only there was found by calling twice; all others are the graph's own.
        for meta, error in doubled[errors]:
            if (meta, codec.encode(error)) not in expected[errors]:
                raise _failed(_told(error, graph), records)
        if self._on_error == "fail" and results[errors]:
            raise _failed(_told(results[errors][0][1], graph), records)
        self._same(encoded(doubled), expected, "when each function is called twice", records)
        if form.other is not None:
            self._same(form.other.results(runs), expected, "in another process", records)
        try:
            schedule.run(self._graph, records)
        except SimulationFailure as failure:
            raise _failed(_said(failure), records, schedule) from None

    def _same(self, found: Encoded, expected: Encoded, where: str, records: Records) -> None:
        """Raises CheckFailed for the first result that differs."""
        for sink, wanted in expected.items():
            got = found[sink]
            if got != wanted:
                place = next(
                    (i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b),
                    min(len(got), len(wanted)),
                )
                one, other = (
                    repr(codec.decode(each[place][1])) if place < len(each) else "nothing"
                    for each in (got, wanted)
                )
                why = (
                    "a function depends on something that is not its input: the order of a set, a clock, "
                    "chance, what was before"
                )
                which = "error items" if sink == errors_of(self._graph) else f"sink {sink!r}"
                raise _failed(
                    f"{where} it gives other results: {why}\n  {which}, result {place}: {one} instead of {other}",
                    records,
                )


def _told(error: ErrorValue, graph: Graph) -> str:
    # without the last line, which says what to do with a job
    return plain(told(error, f"a record of source {error.source!r}", graph)).rpartition("\n")[0]


def _check_records(source: str, records: Sequence[Any]) -> None:
    """Raises GraphError for a record that no source gives."""
    for record in records:
        try:
            codec.check(record)
        except PayloadError as error:
            raise GraphError(
                f"the records of source {source!r} are payloads, and {shortened(record)} is none: {error}"
            ) from None


def _interleaved(records: Records, chance: Random) -> list[tuple[str, Any]]:
    """The records of all sources in one order, in which each source's stay in theirs."""
    order = [name for name, of_source in records.items() for _ in of_source]
    chance.shuffle(order)
    left = {name: iter(of_source) for name, of_source in records.items()}
    return [(name, next(left[name])) for name in order]


def _said(failure: SimulationFailure) -> str:
    different = failure.difference
    if different is None:
        return (
            f"as a job it does not do what the reference interpreter does: {failure.invariant}: "
            f"{failure.detail}"
        )
    instead = f"instead of {different.wanted}" if different.wanted else "too much"
    return (
        f"as a job it gives other results than the reference interpreter\n  sink {different.sink!r}: "
        f"{different.got} {instead}"
    )


def _failed(what: str, records: Records, schedule: Schedule | None = None) -> CheckFailed:
    lines = [
        what,
        *(f"  {name} = {shortened(tuple(of_source), SHOWN)}" for name, of_source in records.items()),
    ]
    if schedule is not None:
        lines += [
            f"  as a job: {schedule}",
            "  if no function depends on anything but its input, this is a bug of FlameStream: "
            "please report it",
        ]
    return CheckFailed("\n".join(lines))
