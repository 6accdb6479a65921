"""`flamestream simulate`: the protocol in virtual time, with faults, from a seed."""

import time
from typing import Annotated

import typer

from flamestream.cli.output import Json, answer, as_json, errors, say
from flamestream.job.exit_codes import ExitCode
from flamestream.model.errors import ManifestError

MAX_SEEDS = 1_000_000


def command(
    seed: Annotated[int | None, typer.Option(help="One seed to run.", show_default=False)] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Many: A:B runs A, A+1, ... B-1.", show_default=False)
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print a line for every event.")] = False,
    guarantee: Annotated[
        str,
        typer.Option(
            help="exactly-once, strong-productions, exactly-once-2pc, at-most-once, at-least-once or none."
        ),
    ] = "exactly-once",
    kind: Annotated[
        str | None,
        typer.Option(
            help="What jobs do and what befalls them beside faults: calls, transactions, upgrades and others; "
            "a wrong name lists them.",
            show_default=False,
        ),
    ] = None,
    calls: Annotated[bool, typer.Option("--calls", help="The same as --kind calls.")] = False,
    json: Json = False,
) -> None:
    """Run a whole job in simulation: workers, coordinators, consumers and store on one thread, with the
    faults that the seed draws.

    Example: [bold]flamestream simulate --seed 7 --trace[/bold], or [bold]--seeds 0:500[/bold]. The same seed
    gives the same trace. [bold]--kind upgrades[/bold] changes the code meanwhile. Exit code 3 if an invariant does not
    hold; the message has the seed and how to see it again.
    """
    # the simulator is no part of a running job
    from flamestream.simulation.kinds import run
    from flamestream.simulation.settings import GUARANTEES
    from flamestream.simulation.simulator import SimulationFailure

    if guarantee not in GUARANTEES:
        raise ManifestError(f"--guarantee {guarantee!r}: what is simulated is {', '.join(GUARANTEES)}")
    chosen = _kind("calls" if calls and kind is None else kind, guarantee)
    if calls and chosen != "calls":
        raise ManifestError(f"--calls and --kind {kind}: give one of the two")
    if trace and json:
        raise ManifestError("--trace is for people, a line an event: leave --json out, or --trace")
    outcomes: dict[str, int] = {}
    events, started = 0, time.monotonic()
    for each in _chosen(seed, seeds):
        try:
            result = run(chosen, each, guarantee, trace=trace, show=say if trace else None)
        except SimulationFailure as failure:
            _failed(each, failure, json)
        outcomes[result.outcome] = outcomes.get(result.outcome, 0) + 1
        events += result.events
        if errors.is_terminal and not trace:
            errors.print(f"seed {each}: {result.outcome}, {result.delivered} delivered ", end="\r")
    _summed_up(outcomes, events, time.monotonic() - started, json)


def _kind(named: str | None, guarantee: str) -> str:
    from flamestream.simulation.kinds import KINDS, usual

    kind = named or usual(guarantee)
    if kind not in KINDS:
        known = "; ".join(f"{name}: {each.about}" for name, each in KINDS.items())
        raise ManifestError(f"--kind {kind!r}: give one of these. {known}")
    if guarantee not in KINDS[kind].guarantees:
        raise ManifestError(
            f"--kind {kind} under {guarantee}: give one of {', '.join(KINDS[kind].guarantees)}"
        )
    return kind


def _chosen(seed: int | None, seeds: str | None) -> range:
    if (seed is None) == (seeds is None):
        raise ManifestError("give either --seed N or --seeds A:B")
    if seed is not None:
        return range(seed, seed + 1)
    first, colon, end = str(seeds).partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and 0 < int(end) - int(first) <= MAX_SEEDS):
        raise ManifestError(f"--seeds {seeds!r}: write A:B with A below B, like 0:500")
    return range(int(first), int(end))


def _failed(seed: int, failure: Exception, json: bool) -> None:
    if json:
        as_json({"seed": seed, "failure": str(failure)})
    else:
        errors.print(str(failure), markup=False)
    raise typer.Exit(ExitCode.DIFFERENCE)


def _summed_up(outcomes: dict[str, int], events: int, seconds: float, json: bool) -> None:
    told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    text = f"{sum(outcomes.values())} seeds ({told}), {events} events, no invariant broken, {seconds:.1f} s"
    answer({"outcomes": outcomes, "events": events, "seconds": round(seconds, 3), "failures": 0}, text, json)
