"""Who looks at the accounts: a client that asks the job, and one that selects from the mirror in PostgreSQL."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from bank_graphs import INITIAL

import flamestream
from bank_kills.beside import Beside
from flamestream.model.errors import Retryable
from support.eventually import eventually
from support.postgres import PostgresServer

EVERY: Final = 0.01
"""Seconds between two looks."""
PATIENCE: Final = 60.0
"""Seconds that a recovery may take at most."""
SCHEMA: Final = (
    "CREATE TABLE balances (account int PRIMARY KEY, balance bigint NOT NULL)",
    "CREATE TABLE sums (moved bigint, least bigint, times bigint NOT NULL, PRIMARY KEY (moved, least))",
    # a delivery is one statement, and one commit: this is seen there
    f"""CREATE FUNCTION summed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO sums SELECT sum(balance - {INITIAL}), least(0, min(balance)), 1 FROM balances
        ON CONFLICT (moved, least) DO UPDATE SET times = sums.times + 1;
      RETURN NULL; END $$""",
    "CREATE TRIGGER summed AFTER INSERT ON balances FOR EACH STATEMENT EXECUTE FUNCTION summed()",
)
SUM: Final = (
    f"SELECT coalesce(sum(balance - {INITIAL}), 0), coalesce(least(0, min(balance)), 0) FROM balances"
)


class Asking(Beside):
    """A client that asks for all accounts, strictly, and through recoveries."""

    pause = EVERY

    def __init__(self, url: str, accounts: Sequence[int], initial: int) -> None:
        super().__init__()
        self.count = self.others = 0
        self.took = list[float]()
        self._accounts, self._initial = accounts, initial
        self._job = flamestream.connect(url, timeout=PATIENCE)

    def turn(self) -> None:
        begin = time.monotonic()
        balances = self.balances().values()
        self.took.append((time.monotonic() - begin) * 1e3)
        self.count += 1
        self.others += sum(balances) != self._initial * len(self._accounts) or min(balances) < 0

    def balances(self) -> dict[int, int]:
        """All, as of one time."""
        for _ in range(3):
            try:
                found = self._job.table("accounts").get_many(self._accounts)
            except Retryable:
                continue
            return {account: found.get(account, self._initial) for account in self._accounts}
        raise AssertionError(f"no answer within {3 * PATIENCE:g} s")


class Mirror(Beside):
    """A table that has the accounts' changes."""

    pause = EVERY

    def __init__(self, server: PostgresServer) -> None:
        super().__init__()
        self.count = self.others = 0
        server.execute(*SCHEMA)
        self._session = psycopg.connect(server.dsn)
        self._session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    def turn(self) -> None:
        """Select twice in one transaction."""
        with self._session.transaction():
            seen = [self._session.execute(SUM).fetchone() for _ in range(2)]
        self.count += 1
        self.others += seen != [(0, 0)] * 2

    def becomes(self, balances: Mapping[int, int]) -> bool:
        """Whether it has these in the end; who was never written has what all had first."""

        def same() -> bool:
            with self._session.transaction():
                found: list[Any] = self._session.execute("SELECT account, balance FROM balances").fetchall()
            rows: dict[int, int] = dict(found)
            return {account: rows.get(account, INITIAL) for account in balances} == balances

        self.ends()
        try:
            return eventually(same, "the mirror has what the job says", within=30)
        except AssertionError:
            return False

    def commits(self) -> dict[str, Any]:
        """How many commits there were, and how many left what may not be."""
        with self._session.transaction():
            rows = self._session.execute("SELECT moved, least, times FROM sums").fetchall()
        others = sum(times for moved, least, times in rows if (moved, least) != (0, 0))
        return {"commits": sum(times for _, _, times in rows), "other_commits": others}
