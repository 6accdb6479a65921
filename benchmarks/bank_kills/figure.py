"""What transactions are worth: transfers between accounts for minutes, while workers and now and then the launcher with
everything are killed, and nobody ever sees another sum.

    python benchmarks bank_kills                    # ten minutes
    python benchmarks bank_kills --out benchmarks/results/kills/bank.jsonl
    python benchmarks bank_kills --minutes 2        # a short look

Who looks: a client asks for all accounts every 10 ms, strictly; another selects the sum of a table of PostgreSQL in
which the accounts' changes are mirrored, exactly once, in a transaction of its own (REPEATABLE READ); and a trigger
there writes down the sum that each commit leaves. At the end the mirror has to be what the job says. The command fails
if a sum was another one, once, or an account below zero.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import bank_graphs
from harness import JOBS
from harness.drive import noise, where
from harness.job import free_port
from harness.report import CACHE
from harness.results import percentile
from harness.rows import keep

from bank_kills.killing import Killing
from bank_kills.looking import Asking, Mirror
from bank_kills.paying import Paying
from support.eventually import eventually
from support.postgres import PostgresServer, postgres
from support.runs.cli_job import CliJob, explained

OUT: Final = CACHE / "bank_kills.jsonl"
ACCOUNTS: Final = 200
"""All can be asked for at once."""


OPENS: Final = 180.0
"""Seconds that a busy machine may take to start a job."""


def job_of(folder: Path, lines: int, queries: int, server: PostgresServer) -> CliJob:
    """The bank, its port for transfers, its port for questions, and its mirror."""
    columns = {"account": "key", "balance": "after"}
    mirror = {"dsn": server.dsn, "table": "balances", "columns": columns, "key": ["account"]}
    spec = {
        "sources": {"lines": {"http": {"listen": f"127.0.0.1:{lines}", "keys": "keys", "records": "lines"}}},
        "sinks": {"balances": {"postgres": mirror}},
        "journal": {"folder": "journal"},
        "queries": {"listen": f"127.0.0.1:{queries}", "share": 1.0},
        "workers": {"replicas": 2, "standby": 1, "slots": 16},
        "checkpoint": {"interval": "1s", "store": "snapshots"},
        "limits": {},
    }
    return CliJob(folder, JOBS / "bank_graphs.py", spec, spark=False, graph="bank_mirrored")


def run(folder: Path, server: PostgresServer, seconds: float, spacing: float) -> dict[str, Any]:
    """So long, with a kill every so many seconds."""
    lines, queries = free_port(), free_port()
    url, accounts = f"http://127.0.0.1:{queries}/v1/jobs/job", list(range(ACCOUNTS))
    asking, mirror = Asking(url, accounts, bank_graphs.INITIAL), Mirror(server)
    paying, job = Paying(lines, accounts), job_of(folder, lines, queries, server)
    killing = Killing(job, spacing)
    try:
        job.start()
        with explained(job):
            eventually(paying.pays, "the bank opens", within=OPENS)
        threads = [each.begun() for each in (paying, asking, mirror, killing)]
        ended = time.monotonic() + seconds
        while time.monotonic() < ended and all(thread.is_alive() for thread in threads):
            time.sleep(0.1)
        failed = [each.problem for each in (killing, paying, asking, mirror) if each.problem]
        for each in (killing, paying, asking):
            each.ends()
        same = not failed and mirror.becomes(asking.balances())
        mirror.ends()
        return {
            "seconds": seconds, "transfers": paying.sent, "kills": dict(killing.kills), "problems": failed,
            "sums": asking.count, "other_sums": asking.others, "p50_ms": round(percentile(asking.took, 50), 2),
            "p99_ms": round(percentile(asking.took, 99), 2), "longest_ms": round(max(asking.took)),
            "selects": mirror.count, "other_selects": mirror.others, "mirror_same": same,
        } | mirror.commits()  # fmt: skip
    finally:
        job.close()


def clean(row: dict[str, Any]) -> bool:
    """Whether nothing was seen that may not be."""
    others = ("problems", "other_sums", "other_selects", "other_commits")
    return row["mirror_same"] and not any(row[name] for name in others)


def sentence(row: dict[str, Any]) -> str:
    """The figure."""
    kills = ", ".join(f"{who} {times}" for who, times in sorted(row["kills"].items()))
    problems = "".join(f". {problem}" for problem in row["problems"])
    return (
        f"{row['seconds'] / 60:g} minutes, {row['transfers']:,} transfers, kills: {kills}. "
        f"{row['sums']:,} strict sums, "
        f"{row['other_sums']} another "
        f"(p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms, longest {row['longest_ms']} ms). "
        f"The mirror: {row['commits']:,} commits, {row['other_commits']} with another sum; {row['selects']:,} selects, "
        f"{row['other_selects']} another; at the end {'as' if row['mirror_same'] else 'NOT as'} the job says{problems}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--spacing", type=float, default=5.0, help="seconds between kills")
    parser.add_argument("--out", type=Path, default=OUT, help="lines of JSON, which are added")
    options = parser.parse_args()
    before = noise()
    with tempfile.TemporaryDirectory(prefix="bank-kills-") as folder, postgres() as server:
        row = run(Path(folder), server, options.minutes * 60, options.spacing)
    keep(options.out, row | {"noise": before} | where())
    print(sentence(row))
    sys.exit(0 if clean(row) else 1)


if __name__ == "__main__":
    main()
