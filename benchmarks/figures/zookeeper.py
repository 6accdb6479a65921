"""What TLS costs on the way to ZooKeeper: the chart's server with it and without, in turns.

    python benchmarks zookeeper                # prints the rows of benchmarks/results/zookeeper.jsonl
    python benchmarks zookeeper --count 400 --rounds 8

    session        from nothing to a session that has proved its login, and its end
    append         a front's append of 100 bytes to a journal, to the answer that it is durable and counts
    64 KiB         a node of that size, written

Servers and client are on one machine, with one replica. Milliseconds.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from harness import BENCHMARKS
from harness.drive import where
from harness.job import noise

from figures.kafka_journal import append
from flamestream.journal.places import JournalConfig
from flamestream.store.zookeeper import ClusterState
from flamestream.store.zookeeper_access import ZooKeeperAccess

sys.path.insert(0, str(BENCHMARKS.parent / "tests"))
from support.zookeeper.authority import Authority
from support.zookeeper.pod import SharedZooKeeper

SESSIONS = 10
"""For each so many other calls one session: it takes as long as ten of them."""
LARGE = b"x" * 65536


def calls_of(access: ZooKeeperAccess, stack: ExitStack) -> dict[str, Callable[[int], object]]:
    """What is measured, by its name."""
    state = stack.enter_context(ClusterState(access))
    state.client.create("/large")

    def session(_: int) -> None:
        with ClusterState(access):
            pass

    return {
        "session": session,
        "append": append(JournalConfig(zookeeper=access)),
        "64 KiB": lambda _: state.client.set("/large", LARGE),
    }


def timed(call: Callable[[int], object], times: int, number: "count[int]") -> list[float]:
    """Milliseconds of each call."""
    took = list[float]()
    for _ in range(times):
        began = time.monotonic()
        call(next(number))
        took.append((time.monotonic() - began) * 1e3)
    return took


def measured(
    calls: dict[str, dict[str, Callable[[int], object]]], times: int, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """With and without take turns, so that noise hits both. The first round warms up."""
    took: dict[str, dict[str, list[float]]] = {}
    number = count()
    for turn in range(rounds + 1):
        for way, its in calls.items():
            for what, call in its.items():
                new = timed(call, times // SESSIONS if what == "session" else times, number)
                if turn:
                    took.setdefault(what, {}).setdefault(way, []).extend(new)
    return took


def percentiles(took: list[float]) -> dict[str, float]:
    took = sorted(took)
    return {"p50": round(took[len(took) // 2], 2), "p90": round(took[int(len(took) * 0.9)], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        authority = Authority(folder / "authority")
        (folder / "plain").mkdir()
        (folder / "tls").mkdir()
        plain = stack.enter_context(SharedZooKeeper(folder / "plain"))
        sealed = stack.enter_context(SharedZooKeeper(folder / "tls", authority.server(), authority.text))
        calls = {
            way: calls_of(server.access(), stack) for way, server in (("without", plain), ("with", sealed))
        }
        about = where()
        for what, ways in measured(calls, options.count, options.rounds).items():
            row = {
                "what": what,
                "n": len(ways["with"]),
                **{way: percentiles(took) for way, took in ways.items()},
            }
            print(json.dumps({**row, **noise(), **about}), flush=True)


if __name__ == "__main__":
    main()
