"""What a worker with a lot of state costs: its loss, its snapshots, what they write, and what a restore
reads.

    python benchmarks big_state                                 # 1 GB on one worker: gap without and with a
                                                                standby, latencies, bytes
    python benchmarks big_state --state 200MB --value 4096

One worker holds all the state, in values that do not compress. Documents fill it as fast as they are taken,
then others of `--keys` keys each come at `--rate`. A first run has one long checkpoint interval, so that its
first snapshot is the whole state at once: latencies while it is under way, beside those before and behind it.
Two more runs have epochs every second, are killed when all is calm, and say how long the output stood still,
how much an epoch writes beside what changed, and how much a snapshot holds beside what lives.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.job import Outcome, Settings, noise, run

from figures.recovery import SETTLED, _gap

KEYS_AT_ONCE = 250
CALM = 8.0
UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


class Watch:
    """The run, by its files: its status, and what the store holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.commits: list[tuple[float, int]] = []
        self._sizes: dict[str, int] = {}
        self.stopped = False

    def status(self) -> dict[str, Any]:
        path = self._folder / "status.json"
        found: dict[str, Any] = (
            json.loads(path.read_text()) if path.exists() else {"phase": "", "workers": [], "standbys": []}
        )
        return found

    def written(self) -> int:
        """Bytes of every segment that was ever seen."""
        for path in (self._folder.parent / "store").rglob("*.parquet"):
            try:
                self._sizes[str(path)] = path.stat().st_size
            except FileNotFoundError:
                continue
        return sum(self._sizes.values())

    def until(self, good: Callable[[dict[str, Any]], bool], limit: float = 600.0) -> dict[str, Any]:
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            status = self.status()
            if status.get("epoch", 0) != (self.commits[-1][1] if self.commits else 0):
                self.commits.append((time.monotonic(), status["epoch"]))
                self.written()
            if good(status):
                return status
            time.sleep(0.02)
        raise SystemExit(f"not within {limit:g} s: {self.status()}")

    def for_a_while(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        return self.until(lambda status: time.monotonic() > end)


def lines(keys: int, touched: int, documents: int) -> list[str]:
    """Documents that name each key once, then random ones."""
    rng = random.Random(3)
    filling = [range(first, min(keys, first + KEYS_AT_ONCE)) for first in range(0, keys, KEYS_AT_ONCE)]
    chosen = [*filling, *(rng.sample(range(keys), touched) for _ in range(documents))]
    return [f"{number}\t{' '.join(f'k{key}' for key in some)}" for number, some in enumerate(chosen)]


def measured(
    options: argparse.Namespace, seconds: float, during: Callable[[Watch], None], **settings: Any
) -> tuple[Outcome, int]:
    """A run of so many seconds behind the filling; `during` begins when the state is there."""
    keys = size_of(options.state) // options.value
    documents = lines(keys, options.keys, int(seconds * options.rate))
    fill = len(documents) - int(seconds * options.rate)
    failed: list[BaseException] = []

    def watch(folder: Path) -> None:
        try:
            watch = Watch(folder)
            watch.until(lambda status: sum(worker["items_out"] for worker in status["workers"]) >= keys)
            during(watch)
        except BaseException as error:  # noqa: BLE001  # shown by the main thread
            failed.append(error)

    with tempfile.TemporaryDirectory(prefix="flamestream-lines-") as folder:
        file = Path(folder) / "lines"
        file.write_text("\n".join(documents))
        os.environ["BENCH_VALUE"] = str(options.value)
        chosen = Settings(
            rate=options.rate, workers=1, functions="big values", lines=file, fill=fill, warm_up=fill,
            documents=len(documents), deadline=1800.0, **settings,
        )  # fmt: skip
        outcome = run(chosen, watch)
    if failed:
        raise SystemExit(f"{failed[0]!r}")
    return outcome, fill


def snapshot(options: argparse.Namespace) -> dict[str, Any]:
    """Latencies before, during and behind a snapshot of everything."""
    window: dict[str, float] = {}

    def during(watch: Watch) -> None:
        window["filled"] = time.monotonic()
        before = watch.written()
        assert before == 0, "an epoch came before the state was there: a longer --interval"
        watch.until(lambda status: watch.written() > 0)
        window["uploading"] = time.monotonic()
        status = watch.until(lambda status: status.get("epoch", 0) >= 1)
        window["committed"] = time.monotonic()
        window["bytes"] = status["snapshot_size"]

    before = noise()
    outcome, fill = measured(options, options.interval + 30.0, during, interval=f"{options.interval:g}s")
    encode = window["uploading"] - options.encoding
    points = outcome.points[fill:]
    calm = [
        latency
        for when, latency in points
        if window["filled"] + 3 < when < encode or when > window["committed"] + 2
    ]
    busy = [latency for when, latency in points if encode <= when <= window["committed"]]
    row = {
        "figure": "snapshot of everything",
        "bytes": int(window["bytes"]),
        "seconds": round(window["committed"] - encode, 1),
    }
    row |= {f"calm_p{q}": _percentile(calm, q) for q in (50, 99)} | {
        f"during_p{q}": _percentile(busy, q) for q in (50, 99)
    }
    return row | {"n": len(busy), "lost": outcome.lost, "doubled": outcome.doubled} | before


def killed(options: argparse.Namespace, standby: int) -> dict[str, Any]:
    """The output's gap, and what epochs write."""
    seen: dict[str, Any] = {}

    def during(watch: Watch) -> None:
        watch.until(lambda status: (status["phase"], len(status["standbys"])) == ("running", standby))
        watch.until(
            lambda status: (
                status["phase"] == "running" and status["snapshot_size"] > 0.95 * size_of(options.state)
            )
        )
        watch.for_a_while(CALM)
        first, at = watch.written(), len(watch.commits)
        began = time.monotonic()
        watch.for_a_while(options.epochs)
        seen["written"], seen["epochs"] = watch.written() - first, len(watch.commits) - at
        seen["changed"] = round((time.monotonic() - began) * options.rate) * options.keys * options.value
        before = watch.status()
        seen["live"] = before["snapshot_size"]
        pid = int(
            json.loads((watch._folder / f"workers/{before['workers'][0]['worker']}.json").read_text())["pid"]
        )
        seen["at"] = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        after = watch.until(
            lambda status: (
                status["phase"] == "running"
                and status["attempt"] > before["attempt"]
                and len(status["standbys"]) == standby
            )
        )
        seen["back"], seen["recovery"] = time.monotonic(), after["last_recovery"]

    before = noise()
    outcome, _ = measured(
        options, CALM + options.epochs + options.saving, during, interval="1s", standby=standby
    )
    gap = _gap(outcome.deliveries, seen["at"], seen["back"] + SETTLED)
    return {
        "figure": f"kill, {standby} standby", "gap_ms": round(gap), "recovery": seen["recovery"],
        "epochs": seen["epochs"], "written_an_epoch": seen["written"] // max(1, seen["epochs"]),
        "written_over_changed": round(seen["written"] / seen["changed"], 2),
        "snapshot_over_state": round(seen["live"] / size_of(options.state), 3) if seen["live"] else None,
        "lost": outcome.lost, "doubled": outcome.doubled, "disorder": outcome.disorder,
    } | before  # fmt: skip


def size_of(text: str) -> int:
    """Bytes of `1GB`, `200MB`."""
    found = re.fullmatch(r"(\d+)(KB|MB|GB|)", text)
    if found is None:
        raise SystemExit(f"--state {text}: a number and KB, MB or GB")
    return int(found[1]) * UNITS[found[2]]


def _percentile(values: list[float], q: int) -> float:
    return round(statistics.quantiles(values, n=100)[q - 1], 2) if len(values) > 1 else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--state", default="1GB")
    parser.add_argument("--value", type=int, default=4096, help="bytes a key")
    parser.add_argument("--keys", type=int, default=20, help="that a document changes")
    parser.add_argument("--rate", type=float, default=50.0, help="documents a second")
    parser.add_argument(
        "--interval",
        type=float,
        default=90.0,
        help="seconds to the snapshot of everything; filling has to be through by then",
    )
    parser.add_argument(
        "--encoding",
        type=float,
        default=2.0,
        help="seconds before the first segment that count as the snapshot's too",
    )
    parser.add_argument(
        "--epochs", type=float, default=15.0, help="seconds in which what epochs write is watched"
    )
    parser.add_argument(
        "--saving",
        type=float,
        default=180.0,
        help="seconds at most to save what filled the state, and to recover",
    )
    parser.add_argument("--figures", default="killed,standby,snapshot")
    options = parser.parse_args()
    kinds = {
        "killed": lambda: killed(options, 0),
        "standby": lambda: killed(options, 1),
        "snapshot": lambda: snapshot(options),
    }
    for figure in options.figures.split(","):
        print(json.dumps(kinds[figure]()), flush=True)


if __name__ == "__main__":
    main()
