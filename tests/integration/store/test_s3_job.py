"""S3 to S3: the inverted index over objects of a bucket into Parquet in a bucket, by `flamestream run`, with
workers, the coordinator, the launcher and the S3 server killed meanwhile. The result is the reference's,
however it is read.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from flamestream.connectors import sinks
from flamestream.connectors.rolling.chain import Chain
from flamestream.connectors.rolling.rolling import rows_of
from flamestream.connectors.rolling.segments import Segment, listed, segment_at
from flamestream.job.application import load
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.reference import interpret
from flamestream.store.folder import LocalStore
from support.documents import Folder
from support.runs import cli_job
from support.runs.cli_job import REPOSITORY, CliJob, canonical, explained
from support.runs.kills import Killer, Role, drawn
from support.versitygw import KEY, SECRET, S3Server, binary, needs_atomic_puts

INDEX = REPOSITORY / "examples" / "inverted_index.py"
BUCKET = "index"
W, C, L = Role.WORKER, Role.COORDINATOR, Role.LAUNCHER


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    binary()
    for name, value in (
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(cli_job.ENVIRONMENT, name, value)
    found = S3Server(tmp_path / "server")
    found.start()
    found.make_bucket(BUCKET)
    yield found
    found.kill()


class S3Job(CliJob):
    """A job whose input, state and output are in the server's bucket."""

    def __init__(self, folder: Path, server: S3Server, **changes: Any) -> None:
        self.server = server
        self._chain: Chain | None = None
        self._counts: dict[tuple[int, int], int] = {}
        self.out = self.url("out")
        rolling = {
            "path": self.out,
            "type": "inverted_index:Change",
            "rollBytes": 200_000,
            "rollSeconds": 2,
            "segmentSeconds": 0.02,
        }
        spec = {
            "sources": {"docs": {"files": {"path": self.url("docs")}}},
            "sinks": {"index": {"rolling": rolling}},
            "checkpoint": {"interval": "200ms", "store": self.url("state")},
            **changes,
        }
        super().__init__(folder, INDEX, spec, spark=False)

    def url(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}?endpoint={self.server.endpoint}"

    def output_bytes(self) -> int:
        """Items that are there, seen in the server's own folder, so also while it is dead. What was read once
        is not read again."""
        out = self.server.folder / BUCKET / "out"
        if not (out / "_flamestream").exists():
            return 0
        if self._chain is None:
            self._chain = Chain(LocalStore(out))
        state = self._chain.refresh()
        filed = sum(part.rows for part in self._chain.parts())
        return filed + sum(self._items_of(log, open_log.absorbed) for log, open_log in state.logs.items())

    def _items_of(self, log: int, absorbed: int) -> int:
        assert self._chain is not None
        store, count = self._chain.store, 0
        for number in [number for number in listed(store, log) if number > absorbed]:
            if (log, number) not in self._counts:
                segment = segment_at(store, log, number)
                if segment is None:  # a part has it by now
                    continue
                self._counts[log, number] = (
                    len(rows_of(segment.bundles)) if isinstance(segment, Segment) else 0
                )
            count += self._counts[log, number]
        return count

    def delivered(self, sink: str) -> list[Any]:
        return [payload for *_, payload in sinks.read(self.spec["sinks"][sink])]


class ServerKills:
    """Kills the server, and starts it again, when these parts of the output are awaited; the rest when no
    more is."""

    def __init__(self, server: S3Server, parts: Sequence[float]) -> None:
        self.server, self.left, self.kills = server, list(parts), 0

    def __call__(self, part: float) -> None:
        while self.left and part >= self.left[0]:
            self.left.pop(0)
            self.server.kill()
            self.server.start()
            self.kills += 1


def put_documents(server: S3Server, folder: Path, count: int) -> list[Any]:
    """As objects below `docs/`."""
    documents = Folder(folder / "docs").add(range(count))
    client = boto3.client("s3", endpoint_url=server.endpoint)
    for document in documents:
        client.put_object(Bucket=BUCKET, Key=f"docs/{document.name}", Body=document.text.encode())
    client.close()
    return documents


def expected(records: Sequence[Any]) -> list[bytes]:
    runs = [(time_of(Timestamp(1 + number), FrontId(0)), [record]) for number, record in enumerate(records)]
    return canonical([payload for _, payload in interpret(load(INDEX, "graph"), runs)["index"]])


def survive(
    folder: Path,
    server: S3Server,
    count: int,
    seed: int,
    roles: Sequence[Role],
    server_kills: Sequence[float],
) -> S3Job:
    needs_atomic_puts(server)
    wanted = expected(put_documents(server, folder, count))
    job = S3Job(folder, server)
    meanwhile = ServerKills(server, server_kills)
    killer = Killer(job, drawn(seed, roles), len(wanted), seed, meanwhile=meanwhile)
    try:
        with explained(job, killer):
            job.start()
            killer.run()
            meanwhile(1)
            assert job.end()[1]["outcome"] == "completed"
            assert canonical(job.delivered("index")) == wanted
            audit = job.audit()
            assert (audit["clean"], audit["complete"], audit["verdict"]["delivered"]) == (
                True,
                True,
                len(wanted),
            ), audit
            assert (killer.kills, meanwhile.kills) == (len(roles), len(server_kills))
            check_what_others_read(server, len(wanted))
    finally:
        job.close()
    return job


def check_what_others_read(server: S3Server, items: int) -> None:
    """By plain path, and by the list of the chain: all rows, each once, in whole files."""
    out = server.folder / BUCKET / "out"
    table = pyarrow.dataset.dataset(str(out), format="parquet").to_table()
    assert table.num_rows == items
    assert len(set(zip(table["_meta"].to_pylist(), table["_slot"].to_pylist(), strict=True))) == items
    chain = Chain(LocalStore(out))
    chain.refresh()
    listed = sorted(part.file for part in chain.parts())
    assert listed == sorted(file.name for file in out.glob("part-*.parquet"))
    assert sum(pq.ParquetFile(out / name).metadata.num_rows for name in listed) == items
    assert all(_is_seal(file) for file in out.glob("_flamestream/logs/*/*")), "what is in parts is deleted"


def _is_seal(file: Path) -> bool:
    return b"seal" in file.read_bytes()[:16]


def test_s3_to_s3_with_workers_launcher_and_server_killed(tmp_path: Path, server: S3Server) -> None:
    survive(tmp_path, server, 500, 5, [W, W, C, L], [0.1, 0.5])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500, 505))
def test_s3_to_s3_for_long(tmp_path: Path, server: S3Server, seed: int) -> None:
    survive(tmp_path, server, 3000, seed, [W, W, W, W, C, L], [0.05, 0.2, 0.4, 0.6, 0.8])
