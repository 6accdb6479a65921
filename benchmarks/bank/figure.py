"""Transactions: transfers between accounts (Affetti 2017), socket to socket and exactly once, beside a database, a
cache and plain loops in the same run; and what else a transaction may meet.

    python benchmarks bank                                    # all parts, some 20 minutes
    python benchmarks bank --parts rate,idle --rounds 3       # some, again and again
    python benchmarks bank --table                            # what is there so far

    rate           transfers a second: ours on one worker and on two, a loop over a dict, Redis, PostgreSQL
    latency        at two rates of Affetti's table 1, beside PostgreSQL at the lower one
    idle           100 a second, beside a plain reduce
    epochs         latency over the interval between epochs, and without a guarantee
    hot            one account in every transfer, and all over four accounts, beside uniform; two workers
    contention     two sources of which one comes behind the other: how often a transfer is decided, and its CPU time
    keys           a million accounts, drawn by Zipf's law
    aborts         a share of transfers that are refused
    orders         2 to 8 keys that are found by reading another, a tenth refused
    business       TPC-C's New-Order and Payment in turn
    consistency    the same with every changed row as a result, through kills: TPC-C's conditions
    snapshot       CPU time of a changed row
    gap            how long no outcome comes when a worker is killed, with a standby and without
    queries        how long an answer takes, and how many come
    beside         transfers beside 5,000 strict questions a second, and beside a scan of a million accounts
    parts          CPU time of a transfer in a worker without sockets: with the kernel, and without

Each part takes less than three minutes. Every outcome of ours is compared with a serial loop's; peers are checked by
their sums. A peer that cannot run here is left out, and says why.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.drive import noise, where
from harness.job import free_port
from harness.report import CACHE
from harness.rows import parser_of, tell
from harness.tables.bank import FLOOR, NOBODY, NOBODY_OF_MANY, PLAIN, SCANNING, STEADY, UNSYNCED, bank_table
from nexmark.outside import Phase
from systems.base import Failed, NotHere

from bank import alone
from bank.asking import Clients
from bank.judge import inconsistent, mirrored
from bank.runs import Ran, Settings, loop, ours, ran
from bank.servers import postgres_transfers, redis_answers, redis_transfers
from bank.steady import Steady
from bank.workloads import ABORTS, FILLED, WORKLOADS, ZIPF
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.dataflow.parts import REFERENCE

OUT: Final = CACHE / "bank.jsonl"
MOST_PATIENT: Final = 1 << 31
AFFETTI: Final = (6_235.0, 21_448.0)
"""Transfers a second in his table 1."""
MODERATE: Final = 5_000.0
WARM_UP: Final = Phase("warm", 2.0, 5_000, rate=2_500.0)
FULL: Final = Phase("full", 10.0, 500_000)
ONE: Final = Settings()
TWO: Final = Settings(workers=2)
KILLS: Final = (4.0, 11.0, 18.0)
"""Seconds into a phase of 25."""
BEHIND: Final = (0, 1, 2, 8, 32)
STRATEGIES: Final = {"by measure": None, "guessing": MOST_PATIENT, "waiting": 0}
"""Patience of each."""
AROUND: Final = 5.0
"""Seconds behind a kill that belong to it."""
SYNCED: Final = ((True, ""), (False, ", no fsync"))
Measured = Iterator[tuple[str, dict[str, Any]]]
"""By case."""


def at(rate: float, seconds: float) -> Phase:
    """So many a second for so long."""
    return Phase(f"{rate:g}/s", seconds, int(rate * seconds) + 1, rate=rate)


def job(workload: str, settings: Settings, *phases: Phase, kills: Sequence[float] = ()) -> Ran:
    """A run of ours, behind a warm-up."""
    its = WORKLOADS[workload]
    return ran(its, [WARM_UP, *phases], ours(its, settings), kills=kills)


def judged(run: Ran, *paced: Phase, full: bool = False) -> dict[str, Any]:
    """Its result: faults, latencies of these phases, outcomes a second of the full one."""
    found: dict[str, Any] = dict(run.faults._asdict()) | {"n": len(run.came.outcomes)}
    found |= {phase.name: run.paced(phase.name) for phase in paced}
    return found | ({"per_s": round(run.rate(FULL.name))} if full else {})


def rate() -> Measured:
    """Of all systems."""
    full = replace(FULL, seconds=12.0)
    for name, settings in (("one worker", ONE), ("two workers", TWO)):
        yield f"flamestream, {name}", judged(job("uniform", settings, full), full=True)
    its = WORKLOADS["uniform"]
    yield "a loop over a dict", judged(ran(its, [WARM_UP, full], loop(its), form="lines"), full=True)
    for always, when in ((True, "at each write"), (False, "each second")):
        yield f"Redis, a script, synced {when}", _tried(redis_transfers, always=always, count=200_000)
    for serializable, how in ((True, "SERIALIZABLE"), (False, "SELECT FOR UPDATE")):
        for fsync, but in SYNCED:
            found = _tried(postgres_transfers, serializable=serializable, fsync=fsync, seconds=10.0)
            yield f"PostgreSQL, {how}{but}", found


def _tried(measure: Callable[..., dict[str, Any]], **given: Any) -> dict[str, Any]:
    """Its result, or why it is not here."""
    try:
        return measure(**given)
    except NotHere as error:
        return {"reason": str(error)}


def latency() -> Measured:
    """At Affetti's rates."""
    low, high = (at(rate, 12.0) for rate in AFFETTI)
    yield "flamestream", judged(job("uniform", ONE, low, high), low, high)
    its = WORKLOADS["uniform"]
    yield "a loop over a dict", judged(ran(its, [WARM_UP, low, high], loop(its), form="lines"), low, high)
    for fsync, but in SYNCED:
        found = _tried(postgres_transfers, serializable=True, fsync=fsync, seconds=12.0, rate=low.rate)
        yield f"PostgreSQL, SERIALIZABLE{but}", {low.name: found}


def idle() -> Measured:
    """In turns."""
    slow = at(100.0, 20.0)
    for workload in ("uniform", "reduce") * 2:
        yield workload, judged(job(workload, ONE, slow), slow)


def epochs() -> Measured:
    """By interval. An epoch a second whose journal does not wait for the disk is the protocol's share."""
    phase = at(MODERATE, 10.0)
    yield "none", judged(job("uniform", replace(ONE, guarantee="none"), phase), phase)
    yield UNSYNCED, judged(job("uniform", replace(ONE, fsync=False), phase), phase)
    for interval, seconds in (("50ms", 10.0), ("200ms", 10.0), ("1s", 10.0), ("10s", 25.0)):
        longer = at(MODERATE, seconds)
        yield interval, judged(job("uniform", replace(ONE, interval=interval), longer), longer)


def _of(workloads: Sequence[str], settings: Settings, paced: Phase) -> Measured:
    for workload in workloads:
        yield workload, judged(job(workload, settings, paced, FULL), paced, full=True)


def hot() -> Measured:
    """On two workers."""
    return _of(("uniform", "one hot account", "four accounts"), TWO, at(MODERATE, 6.0))


def contention() -> Measured:
    """Without sockets: by account, by how far the other source is behind, in passes of 64 transfers, and by strategy:
    the least of two turns, in which all have theirs."""
    for workload in ("uniform", "one hot account", "four accounts"):
        for behind in BEHIND:
            turns = [
                {name: alone.contention(FASTEST, workload, behind, its) for name, its in STRATEGIES.items()}
                for _ in range(2)
            ]
            best = {
                name: min((turn[name] for turn in turns), key=lambda one: one["us"]) for name in STRATEGIES
            }
            yield f"{workload}, {behind} behind", best


def keys() -> Measured:
    """By Zipf's exponent."""
    return _of([f"zipf {zipf}" for zipf in ZIPF], ONE, at(MODERATE, 4.0))


def aborts() -> Measured:
    """By share."""
    return _of([f"aborts {share:.0%}" for share in ABORTS], ONE, at(MODERATE, 4.0))


def orders() -> Measured:
    """Behind the baskets, which the warm-up has."""
    return _of(["orders"], ONE, at(MODERATE, 8.0))


def business() -> Measured:
    """Two kinds of transactions in turn."""
    return _of(["tpcc"], ONE, at(1_000.0, 8.0))


def consistency() -> Measured:
    """The conditions hold for the rows that the changes lead to, which are the serial run's."""
    phase = at(300.0, 25.0)
    run = job("tpcc mirrored", replace(TWO, standby=1), phase, kills=KILLS)
    rows, torn = mirrored(run.came.writes)
    broken = {f"condition {name}": count for name, count in inconsistent(rows).items()}
    # the serial run may have set rows to what they were at first: of those nobody hears
    differ = sum(run.serial.rows[key] != value for key, value in rows.items() if key in run.serial.rows)
    unknown = len(rows.keys() ^ run.serial.rows.keys())
    yield "New-Order and Payment", judged(run, phase) | broken | {
        "kills": len(run.kills), "rows": len(rows), "torn": torn, "other_rows": differ + unknown,
    }  # fmt: skip


def snapshot() -> Measured:
    """Accounts that are ints."""
    yield "flamestream", alone.snapshots(FASTEST)


def parts() -> Measured:
    """The floor of everything that is ours: no socket, no file, no other process. Beside it the same bank as one
    ordinary fold over all rows, which any release could have run."""
    for name, its in (("with the kernel", FASTEST), ("the reference dataflow", REFERENCE)):
        yield name, alone.transfers(its, 100_000)
    yield "with the kernel, as one ordinary fold", alone.transfers(FASTEST, 100_000, alone.composed())


def gap() -> Measured:
    """One worker that is killed thrice."""
    phase = at(20_000.0, 25.0)
    for name, standby in (("with a standby", 1), ("without", 0)):
        run = job("uniform", replace(ONE, standby=standby), phase, kills=KILLS)
        gaps = [round(run.gap(kill, AROUND)) for kill in run.kills]
        yield name, judged(run, phase) | {"gaps_ms": gaps}


def queries() -> Measured:
    """Clients that ask for accounts, beside few transfers and many; and these with nobody who asks. The floor: the same
    clients ask Redis, which does nothing else."""
    busy = at(20_000.0, 8.0)
    yield "nobody", judged(job("uniform", ONE, busy), busy)
    for how in ("strict", "stale"):
        for count, pause in ((1, 0.005), (16, 0.0)):
            told = dict[str, Any]()
            for phase in (at(100.0, 8.0), busy):
                told |= _asked(Clients(how, count, pause), phase)
            yield f"{count} {how}", told
    floor = _tried(redis_answers, clients=Clients("redis", 16), seconds=6.0)
    yield FLOOR, floor if "reason" in floor else {"asked, 100/s": floor}


def beside() -> Measured:
    """Each behind the same without anybody who asks. The million accounts are there before it is measured, and in a
    snapshot."""
    busy, its = at(20_000.0, 8.0), WORKLOADS["a million accounts"]
    yield NOBODY, judged(job("uniform", ONE, busy), busy)
    yield PLAIN, _asked(Steady(5_000, plain=True), busy)
    yield STEADY, _asked(Steady(5_000), busy)
    filled = [Phase("fill", 30.0, FILLED), replace(busy, name="committed")]
    yield NOBODY_OF_MANY, judged(ran(its, [WARM_UP, *filled, busy], ours(its, ONE)), busy)
    yield SCANNING, _asked(Clients("scan", 1), busy, its.name, filled)


def _asked(
    clients: Clients | Steady, phase: Phase, workload: str = "uniform", before: Sequence[Phase] = ()
) -> dict[str, Any]:
    """A phase while they ask."""
    its, port = WORKLOADS[workload], free_port()
    asking = lambda name: clients.start(port, phase.seconds - 2.0) if name == phase.name else None  # noqa: E731
    run = ran(its, [WARM_UP, *before, phase], ours(its, replace(ONE, port=port)), beside=asking)
    return judged(run, phase) | {f"asked, {phase.name}": clients.told()}


ALL: Final = (
    rate, latency, idle, epochs, hot, contention, keys, aborts, orders, business, consistency, snapshot, parts, gap,
    queries, beside,
)  # fmt: skip
PARTS: Final[dict[str, Callable[[], Measured]]] = {part.__name__: part for part in ALL}


def rows_of(names: Sequence[str], rounds: int) -> Iterator[dict[str, Any]]:
    """A row of each case, in rounds."""
    for _ in range(rounds):
        for name in names:
            before = noise()
            for case, result in PARTS[name]():
                yield {"measure": name, "case": case, "result": result, "noise": before} | where()
                before = noise()


def main() -> None:
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them, with commas between")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    names = options.parts.split(",")
    if unknown := set(names) - PARTS.keys():
        raise SystemExit(f"no part named {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    try:
        shown = lambda row: f"{row['measure']}, {row['case']}: {row['result']}"  # noqa: E731
        tell(options, rows_of(names, options.rounds), bank_table, shown)
    except Failed as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
