"""Files sources and the rolling sink on a real S3 server: both conformance kits, the server killed in
between, and clear refusals."""

import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flamestream.connectors import sinks, sources
from flamestream.connectors.files.spec import FilesSpec, place_of, reader
from flamestream.core.protocol.actions import Follow, OpenSink, Pull
from flamestream.core.protocol.events import BundlesAcknowledged, RecordsArrived, SinkFailed, SourceFailed
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Offset, Partition, SinkName, Slot, WorkerId
from flamestream.model.payload import encode_items, payload_type
from flamestream.model.records import Document
from flamestream.ports import Consumer, Post, Producer, Reactor
from flamestream.testing.consumer_contract import CONSUMER_CHECKS, SINK, Outside, Worker, bundle, fence
from flamestream.testing.consumer_outages import CONSUMER_OUTAGE_CHECKS
from flamestream.testing.consumer_outages import StoppableOutside as StoppableConsumer
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, PRODUCER_CHECKS, RECORDS, REPLAY_CHECKS, Front
from flamestream.testing.producer_contract import Outside as ProducerOutside
from flamestream.testing.producer_outages import PRODUCER_OUTAGE_CHECKS, REPLAY_OUTAGE_CHECKS
from flamestream.testing.producer_outages import StoppableOutside as StoppableProducer
from support.pieces import same_in_pieces
from support.versitygw import KEY, SECRET, S3Server, binary, needs_atomic_puts

PLENTY = 1 << 40
WORDS = [f"wörd {number}" for number in range(RECORDS)]
buckets = (f"files{i}" for i in count())


@payload_type
@dataclass(frozen=True, slots=True)
class Row:
    n: int
    word: str


ROW = f"{__name__}:Row"
"""Other tests of this process have a Row too."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    binary()
    found = S3Server(tmp_path_factory.mktemp("s3"))
    found.start()
    yield found
    found.kill()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


class Bucket:
    """A bucket of the server, and how a test puts objects into it."""

    def __init__(self, server: S3Server) -> None:
        import boto3

        self.server, self.name = server, next(buckets)
        server.make_bucket(self.name)
        self.url = f"s3://{self.name}/in?endpoint={server.endpoint}"
        self._client = boto3.client("s3", endpoint_url=server.endpoint)

    def put(self, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=f"in/{key}", Body=data)

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=f"in/{key}")

    def names(self) -> list[str]:
        return [entry["Key"] for entry in self._client.list_objects_v2(Bucket=self.name).get("Contents", ())]

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def bucket(server: S3Server) -> Iterator[Bucket]:
    found = Bucket(server)
    yield found
    found.close()


def parquet(first: int, end: int, group: int = 3) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"n": pa.array(range(first, end), pa.int64()), "word": WORDS[first:end]}),
        sink,
        row_group_size=group,
    )
    return sink.getvalue()


# --- the source's kit ---------------------------------------------------------------------------------------


class InBucket:
    """Ten records in a bucket, and a server that can be killed."""

    def __init__(self, bucket: Bucket, payloads: list[Any], partition: str = "", **settings: Any) -> None:
        self.bucket, self.payloads, self.partition = bucket, payloads, Partition(partition)
        self.spec = {"files": {"path": bucket.url, **settings}}

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        return sources.build(self.spec, FRONT, post, reactor, name="docs")

    def stop(self) -> None:
        self.bucket.server.kill()

    def start(self) -> None:
        self.bucket.server.start()


def documents(bucket: Bucket) -> InBucket:
    for word in WORDS:
        bucket.put(f"{word}.txt", word.encode())
    return InBucket(bucket, [Document(f"{word}.txt", word) for word in WORDS])


def lines(bucket: Bucket) -> InBucket:
    for name, words in (("a", WORDS[:4]), ("b", []), ("c", WORDS[4:])):
        bucket.put(name, "".join(f"{word}\n" for word in words).encode())
    return InBucket(bucket, list(WORDS), records="lines")


def followed_json(bucket: Bucket) -> InBucket:
    bucket.put(
        "log.jsonl",
        "".join(json.dumps({"n": n, "word": word}) + "\n" for n, word in enumerate(WORDS)).encode(),
    )
    return InBucket(
        bucket,
        [Row(n, word) for n, word in enumerate(WORDS)],
        "1 log.jsonl",
        format="jsonl",
        type=ROW,
        follow=True,
    )


def followed_parquet(bucket: Bucket) -> InBucket:
    bucket.put("x.parquet", parquet(0, RECORDS))
    return InBucket(
        bucket,
        [Row(n, word) for n, word in enumerate(WORDS)],
        "1 x.parquet",
        format="parquet",
        type=ROW,
        follow=True,
    )


@pytest.mark.parametrize("check", PRODUCER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [documents, lines, followed_json, followed_parquet])
def test_source(
    make: Callable[[Bucket], InBucket], check: Callable[[ProducerOutside], None], bucket: Bucket
) -> None:
    check(make(bucket))


@pytest.mark.parametrize("check", REPLAY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [followed_json, followed_parquet])
def test_replays(
    make: Callable[[Bucket], InBucket], check: Callable[[ProducerOutside], None], bucket: Bucket
) -> None:
    check(make(bucket))


@pytest.mark.parametrize(
    "check", [*PRODUCER_OUTAGE_CHECKS, *REPLAY_OUTAGE_CHECKS], ids=lambda check: check.__name__
)
def test_source_outlives_its_server(check: Callable[[StoppableProducer], None], bucket: Bucket) -> None:
    check(followed_parquet(bucket))


@pytest.mark.parametrize("make", [documents, lines, followed_json, followed_parquet])
def test_pieces_and_windows_are_what_the_source_itself_gives(
    make: Callable[[Bucket], InBucket], bucket: Bucket
) -> None:
    spec = {**make(bucket).spec["files"], "follow": False}
    same_in_pieces(spec, length=3, size=2)


def test_small_objects_are_read_at_once(bucket: Bucket) -> None:
    inside = documents(bucket)
    files = place_of(FilesSpec(**inside.spec["files"]), "")
    found = files.listing(settled_only=False)
    files.expect(found)
    files.open(found[0]).close()
    wait(files._ahead._begun.values())  # type: ignore[attr-defined]
    bucket.server.kill()
    try:
        fetched = [files.open(file).read().decode() for file in found[1:3]]
    finally:
        bucket.server.start()
    assert fetched == sorted(WORDS, key=lambda word: f"{word}.txt".encode())[1:3]


# --- the sink's kit -----------------------------------------------------------------------------------------


class Rolled:
    """A rolling sink in a bucket."""

    def __init__(self, bucket: Bucket, form: str = "parquet", roll_seconds: float = 0.001) -> None:
        self.bucket = bucket
        path = f"s3://{bucket.name}/out?endpoint={bucket.server.endpoint}"
        self.spec = {
            "rolling": {"path": path, "format": form, "rollSeconds": roll_seconds, "segmentSeconds": 0}
        }

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        bundles: dict[tuple[int, int], list[tuple[bytes, object]]] = {}
        for meta, slot, sequence, payload in sinks.read(self.spec):
            bundles.setdefault((slot, sequence), []).append((meta, payload))
        return [(slot, sequence, encode_items(items)) for (slot, sequence), items in bundles.items()]

    def stop(self) -> None:
        self.bucket.server.kill()

    def start(self) -> None:
        self.bucket.server.start()


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
def test_sink(check: Callable[[Outside], None], bucket: Bucket) -> None:
    check(Rolled(bucket))


@pytest.mark.parametrize("check", CONSUMER_OUTAGE_CHECKS, ids=lambda check: check.__name__)
def test_sink_outlives_its_server(check: Callable[[StoppableConsumer], None], bucket: Bucket) -> None:
    needs_atomic_puts(bucket.server)
    check(Rolled(bucket))


def test_what_waits_is_in_files_after_a_normal_end_and_nothing_else_is_left(bucket: Bucket) -> None:
    outside = Rolled(bucket, roll_seconds=60)
    with PortDriver() as driver:
        worker = Worker(outside, "w1", driver)
        worker.open(fence(1), 0, 1)
        for sequence in (1, 2):
            worker.deliver(fence(1), bundle(0, sequence), bundle(1, sequence))
        assert not [name for name in bucket.names() if "part-" in name]
    names = [name.removeprefix("out/") for name in bucket.names()]
    parts = [name for name in names if not name.startswith("_")]
    assert len(parts) == 1
    assert not [name for name in names if "/logs/" in name], "segments are deleted once a part has them"
    assert len(outside.taken()) == 4


# --- bad input ----------------------------------------------------------------------------------------------


def test_an_object_that_is_replaced_or_deleted_while_it_is_read_is_an_error_that_says_so(
    bucket: Bucket,
) -> None:
    data = b"".join(b"line %d of some length\n" % n for n in range(200_000))
    changes: list[Callable[[], object]] = [lambda: bucket.put("a", b"other"), lambda: bucket.delete("a")]
    for change in changes:
        bucket.put("a", data)
        source = reader(FilesSpec(path=bucket.url, records="lines"), "docs", "spec.sources.docs")
        source.seek({})
        (chunk,) = source.next(10, PLENTY)
        change()
        source.seek({Partition(""): Offset(10)})
        with pytest.raises(Corrupt, match=rf"s3://{bucket.name}/in/a: it"):
            source.next(10, PLENTY)
        assert chunk.payloads[9] == "line 9 of some length"


def refused(spec: dict[str, Any]) -> str:
    """Why a source is refused; it must be the user's to mend."""
    with PortDriver() as driver:
        producer = sources.build({"files": spec}, FRONT, driver.post, driver.reactor, name="docs")
        driver.at_exit.append(producer.close)
        producer.follow(Follow(Front.fence(1), FRONT, {}))
        producer.pull(Pull(Front.fence(1), FRONT, 10, 1000))
        failed = driver.take(SourceFailed)
        assert not [event for event in driver.events if isinstance(event, RecordsArrived)]
    assert failed.category == "user"
    return failed.message


def test_a_missing_bucket_and_a_wrong_key_are_named_with_their_setting(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = f"s3://nowhere/in?endpoint={bucket.server.endpoint}"
    assert refused({"path": missing}).startswith(
        "spec.sources.docs.files.path: cannot list 'in/' in s3://nowhere/"
    )
    assert "create the bucket" in refused({"path": missing})
    with PortDriver() as driver:
        consumer = sinks.build(
            {"rolling": {"path": missing}}, SinkName("out"), WorkerId("w"), "job", driver.post, driver.reactor
        )
        consumer.open(OpenSink(fence(1), SinkName("out"), [Slot(0)]))
        failed = driver.take(SinkFailed)
        assert failed.category == "user"
        assert "spec.sinks.out.rolling.path: cannot write" in failed.message
        consumer.close()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert "correct AWS_SECRET_ACCESS_KEY" in refused({"path": bucket.url})
    with PortDriver() as driver:
        Worker(Rolled(bucket), "w", driver).send_open(fence(1), 0)
        failed = driver.take(SinkFailed)
        assert (failed.category, "correct AWS_SECRET_ACCESS_KEY" in failed.message) == ("user", True)


def test_a_server_that_stands_still_is_told_by_source_and_sink_and_nothing_is_lost(
    bucket: Bucket, driver: PortDriver
) -> None:
    worker, front = Worker(Rolled(bucket), "w1", driver), Front(followed_json(bucket), driver)
    worker.open(fence(1), 0)
    front.follow(0)
    front.pull(PLENTY)
    front.wait(RECORDS)
    bucket.server.pause()
    try:
        worker.send(fence(1), bundle(0, 1))
        for port in (worker.consumer, front.producer):
            driver.until(lambda port=port: "has not answered" in port.problem, "a `problem`")  # type: ignore[misc]
    finally:
        bucket.server.resume()
    driver.take(BundlesAcknowledged)
    driver.until(lambda: worker.consumer.problem == front.producer.problem == "", "no `problem` any more")  # type: ignore[attr-defined]
    assert len(front.got()) == RECORDS


def test_a_bucket_that_is_deleted_under_source_and_sink_ends_the_job(
    bucket: Bucket, driver: PortDriver
) -> None:
    worker, front = Worker(Rolled(bucket), "w1", driver), Front(followed_json(bucket), driver)
    worker.open(fence(1), 0)
    worker.deliver(fence(1), bundle(0, 1))
    front.follow(0)
    front.pull(PLENTY)
    front.wait(RECORDS)
    shutil.rmtree(bucket.server.folder / bucket.name)
    assert "create the bucket" in driver.take(SourceFailed).message
    worker.send(fence(1), bundle(0, 2))
    failed = driver.take(SinkFailed)
    assert failed.category in ("user", "corrupt")
    assert bucket.name in failed.message


def test_several_urls_keep_their_names_apart_and_one_object_may_be_named(bucket: Bucket) -> None:
    for key in ("x/1", "y/1", "y/2"):
        bucket.put(key, key.encode())
    base, _, query = bucket.url.partition("?")
    spec = FilesSpec(paths=[f"{base}/x?{query}", f"{base}/y/2?{query}"])
    source = reader(spec, "docs", "spec.sources.docs")
    source.seek({})
    found = [payload for chunk in source.next(10, PLENTY) for payload in chunk.payloads]
    name = f"{bucket.name}/in"
    assert found == [Document(f"{name}/x/1", "x/1"), Document(f"{name}/y/2", "y/2")]
