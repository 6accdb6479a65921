"""The same transfers in a database and in a cache, each driven by its own load generator: PostgreSQL by pgbench, Redis
by redis-benchmark.

PostgreSQL runs a stored procedure, under SERIALIZABLE (pgbench repeats what conflicts, until it goes through) or with
both rows locked in the order of their numbers. Redis runs a script, which it never interleaves with another, with an
append-only file. Both answer with what is left, as ours does.

Keeps: each run is checked: no money made or lost, no account below zero, every transfer done once. Does not: install
what is missing (tests/support does, as root on Debian).
"""

import csv
import io
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from harness.results import percentile
from systems.base import Failed, NotHere

from bank.asking import Clients
from bank.serial import INITIAL
from bank.workloads import ACCOUNTS
from support.postgres import PostgresServer, binaries, postgres
from support.redis import binary, redis_server

CLIENTS: Final = 16
"""Connections: 8 and 32 differ by less than runs do, on two cores."""
SCHEMA: Final = f"""
CREATE TABLE accounts (
  id int PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0), moves bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO accounts SELECT id, {INITIAL} FROM generate_series(0, {ACCOUNTS - 1}) AS id;
CREATE TYPE outcome AS (left_ bigint, right_ bigint);
CREATE FUNCTION transfer(source int, target int, amount int) RETURNS outcome LANGUAGE plpgsql AS $$
DECLARE told outcome;
BEGIN
  {{lock}}
  UPDATE accounts SET balance = balance - amount, moves = moves + 1
    WHERE id = source AND balance >= amount RETURNING balance INTO told.left_;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE accounts SET balance = balance + amount, moves = moves + 1
    WHERE id = target RETURNING balance INTO told.right_;
  RETURN told;
END $$;
"""
LOCK: Final = "PERFORM 1 FROM accounts WHERE id IN (source, target) ORDER BY id FOR UPDATE;"
SCRIPT: Final = f"""
\\set source random(0, {ACCOUNTS - 1})
\\set target (:source + random(1, {ACCOUNTS - 1})) % {ACCOUNTS}
\\set amount random(1, 9)
SELECT transfer(:source, :target, :amount);
"""
LUA: Final = f"""
local left = tonumber(redis.call('GET', KEYS[1]) or '{INITIAL}') - tonumber(ARGV[1])
if left < 0 then return false end
redis.call('SET', KEYS[1], left)
local right = tonumber(redis.call('GET', KEYS[2]) or '{INITIAL}') + tonumber(ARGV[1])
redis.call('SET', KEYS[2], right)
return {{left, right}}
"""
Found = dict[str, Any]


def postgres_transfers(*, serializable: bool, fsync: bool, seconds: float, rate: float = 0.0) -> Found:
    """Transfers a second, and latencies in ms: at full rate, or from when each was due at a `rate`. Raises Failed, and
    NotHere."""
    switch = "on" if fsync else "off"
    level = "serializable" if serializable else "read committed"
    _found(binaries)
    with postgres(
        fsync=switch, full_page_writes=switch, shared_buffers="512MB", max_wal_size="8GB",
        default_transaction_isolation=level,
    ) as server:  # fmt: skip
        server.execute(*_statements(SCHEMA.format(lock="" if serializable else LOCK)))
        server.execute("VACUUM ANALYZE accounts", "CHECKPOINT")
        with tempfile.TemporaryDirectory(prefix="flamestream-bench-") as name:
            said = _pgbench(server, Path(name), seconds, rate)
            latencies = sorted(_logged(Path(name)))
        return _of_pgbench(said, latencies) | _checked(server, said)


def _found(server: Callable[[], object]) -> None:
    """Raises NotHere where a test would be skipped."""
    try:
        server()
    except pytest.skip.Exception as reason:
        raise NotHere(str(reason)) from None


def _statements(schema: str) -> list[str]:
    """Those of the schema; a function's body has semicolons of its own."""
    head, function = schema.split("CREATE FUNCTION")
    return [*filter(str.strip, head.split(";")), f"CREATE FUNCTION{function}"]


def _pgbench(server: PostgresServer, folder: Path, seconds: float, rate: float) -> str:
    (folder / "transfer.sql").write_text(SCRIPT)
    command = [
        str(binaries() / "pgbench"), "--no-vacuum", "--protocol=prepared", "--max-tries=0", "--failures-detailed",
        f"--client={CLIENTS}", "--jobs=1", f"--time={seconds:g}", "--log", "--file=transfer.sql",
        *([f"--rate={rate:g}"] if rate else []), server.dsn,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"pgbench ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _logged(folder: Path) -> Iterator[float]:
    """The latency of each transaction in ms, with how late it was begun."""
    for file in folder.glob("pgbench_log.*"):
        for line in file.read_text().splitlines():
            fields = line.split()
            yield int(fields[2]) / 1e3


def _of_pgbench(said: str, latencies: list[float]) -> Found:
    def number(what: str) -> float:
        found = re.search(rf"{what}\D*? = ([\d.]+)|{what}: ([\d.]+)", said)
        return float(found[1] or found[2]) if found else 0.0

    return {
        "per_s": round(number("tps")), "n": len(latencies), "retries": round(number("total number of retries")),
        "mean_ms": round(sum(latencies) / len(latencies), 2),
        "p50_ms": round(percentile(latencies, 50), 2), "p99_ms": round(percentile(latencies, 99), 2),
    }  # fmt: skip


def _checked(server: PostgresServer, said: str) -> Found:
    """Raises Failed if the accounts are not what so many transfers leave."""
    ((money, least, moves),) = server.execute("SELECT sum(balance), min(balance), sum(moves) FROM accounts")
    found = re.search(r"actually processed: (\d+)", said)
    done = int(found[1]) if found else -1
    # none is refused: each account has far more than it ever pays
    if (int(money), int(moves)) != (ACCOUNTS * INITIAL, 2 * done) or least < 0:
        raise Failed(f"after {done} transfers: {money} in all, {moves} moves, {least} at least")
    return {"checked": done}


def redis_answers(clients: Clients, seconds: float) -> Found:
    """What clients are told that ask for one balance after the other. Raises Failed, and NotHere."""
    _found(binary)
    with redis_server() as server:
        server.call("MSET", *(word for account in range(ACCOUNTS) for word in (str(account), str(INITIAL))))
        clients.start(server.port, seconds)
        return clients.told()


def redis_transfers(*, always: bool, count: int) -> Found:
    """Transfers a second, and latencies in ms at full rate, with a file that is synced at each write (many clients
    share one), or each second. Raises Failed, and NotHere."""
    policy = "always" if always else "everysec"
    _found(binary)
    with redis_server(appendfsync=policy) as server:
        sha = server.call("SCRIPT", "LOAD", LUA)
        command = [
            "redis-benchmark", "-p", str(server.port), "-c", str(CLIENTS), "-n", str(count),
            "-r", str(ACCOUNTS), "--csv", "EVALSHA", sha, "2", "__rand_int__", "__rand_int__", "3",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not done.stdout:
            raise Failed(f"redis-benchmark ended with {done.returncode}: {done.stderr[-2000:]}")
        (row,) = csv.DictReader(io.StringIO(done.stdout))
        keys = server.call("KEYS", "*")
        balances = [int(each) for each in server.call("MGET", *keys)]
        calls = server.call("INFO", "commandstats")["cmdstat_evalsha"]["calls"]
        if (sum(balances), calls) != (len(keys) * INITIAL, count) or min(balances) < 0:
            raise Failed(f"after {calls} of {count} transfers: {sum(balances)} in {len(keys)} accounts")
    return {
        "per_s": round(float(row["rps"])), "n": count, "mean_ms": float(row["avg_latency_ms"]),
        "p50_ms": float(row["p50_latency_ms"]), "p99_ms": float(row["p99_latency_ms"]),
        "checked": count,
    }  # fmt: skip
