"""Files sources: which files, in which order, and what becomes of files that are bad, change or go."""

import gzip
import os
from collections.abc import Container
from pathlib import Path
from types import SimpleNamespace

import pytest

from flamestream.connectors import sources
from flamestream.connectors.files import followed
from flamestream.connectors.files.documents import Documents
from flamestream.connectors.files.followed import FollowedReader
from flamestream.connectors.files.listing import LocalFiles, Place
from flamestream.connectors.files.places import Found
from flamestream.core.protocol.actions import Follow, Pull, ReadRun
from flamestream.core.protocol.events import Entry, RecordsArrived, RunRead, SourceEnded, SourceFailed
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Offset, Partition
from flamestream.model.payload import ErrorValue
from flamestream.model.records import Document
from flamestream.model.time import Time
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, PLENTY, Front

FENCE = Front.fence(1)


class Reading:
    """A files source, driven by hand."""

    def __init__(self, driver: PortDriver, attempt: int = 1, **files: object) -> None:
        self.driver = driver
        self.fence = Front.fence(attempt)
        self.producer = sources.build({"files": files}, FRONT, driver.post, driver.reactor, name="docs")
        driver.at_exit.append(self.producer.close)

    def follow(self, **offsets: int) -> "Reading":
        self.producer.follow(
            Follow(self.fence, FRONT, {Partition(name): Offset(offset) for name, offset in offsets.items()})
        )
        self.producer.pull(Pull(self.fence, FRONT, PLENTY, PLENTY))
        return self

    def all(self) -> list[object]:
        self.driver.take(SourceEnded)
        return [
            payload
            for event in self.driver.events
            if isinstance(event, RecordsArrived)
            for payload in event.payloads
        ]

    def next(self) -> tuple[str, list[object]]:
        arrived = self.driver.take(RecordsArrived)
        return arrived.partition, list(arrived.payloads)

    def read(self, partition: str, first: int, count: int) -> "Reading":
        self.producer.read(
            ReadRun(self.fence, FRONT, Entry(Time(9), Partition(partition), Offset(first), count))
        )
        return self

    def failure(self, category: str) -> str:
        failed = self.driver.take(SourceFailed)
        assert failed.category == category
        return failed.message


def test_documents_come_in_the_byte_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.py", "a/z.py", "a.py", "é.py", "Z.py", "a/skipped.txt", "z/.hidden.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    with PortDriver() as driver:
        documents = Reading(driver, path=str(tmp_path), pattern="**/*.py").follow().all()
    assert [document.name for document in documents if isinstance(document, Document)] == [
        "Z.py",
        "a.py",
        "a/z.py",
        "b.py",
        "z/.hidden.py",
        "é.py",
    ]


def test_several_paths_keep_their_names_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("x", "y"):
        Path(folder).mkdir()
        Path(folder, "f").write_text(folder)
    with PortDriver() as driver:
        assert Reading(driver, paths=["y", "x/f"]).follow().all() == [
            Document("x/f", "x"),
            Document("y/f", "y"),
        ]


def test_a_byte_that_is_not_in_the_encoding_is_an_error_item_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"fine\nb\xffd\nfine")
    with PortDriver() as driver:
        (document,) = Reading(driver, path=str(tmp_path)).follow().all()
        driver.events.clear()
        lines = Reading(driver, path=str(tmp_path), records="lines").follow().all()
    expected = ErrorValue(
        "source docs", "UnicodeDecodeError", "a: byte 6 (0xff) is not utf-8: invalid start byte"
    )
    assert document == expected
    assert lines == ["fine", expected, "fine"]


def test_a_record_beyond_the_limit_is_an_error_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flamestream.connectors.files.lines.MAX_RECORD", 8)
    monkeypatch.setattr("flamestream.connectors.files.documents.MAX_RECORD", 8)
    (tmp_path / "a").write_text("12345678\n123456789\n" + "1" * 30 + "\nend\n")
    with PortDriver() as driver:
        (document,) = Reading(driver, path=str(tmp_path)).follow().all()
        driver.events.clear()
        lines = Reading(driver, path=str(tmp_path), records="lines").follow().all()
    assert [getattr(line, "error", line) for line in lines] == [
        "RecordTooLong",
        "RecordTooLong",
        "RecordTooLong",
        "end",
    ]
    assert document.error == "RecordTooLong"  # type: ignore[attr-defined]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_an_error_item(tmp_path: Path) -> None:
    (tmp_path / "a").touch(mode=0)
    with PortDriver() as driver:
        (payload,) = Reading(driver, path=str(tmp_path)).follow().all()
    assert isinstance(payload, ErrorValue)


def test_a_missing_folder_fails_the_source(tmp_path: Path) -> None:
    with PortDriver() as driver:
        assert str(tmp_path / "none") in Reading(driver, path=str(tmp_path / "none")).follow().failure("user")


def test_an_empty_folder_ends_at_once(tmp_path: Path) -> None:
    with PortDriver() as driver:
        assert Reading(driver, path=str(tmp_path)).follow().all() == []


def test_fewer_records_than_were_read_fail_the_source(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    for records in ("files", "lines"):
        with PortDriver() as driver:
            producer = Reading(driver, path=str(tmp_path), records=records)
            producer.producer.follow(Follow(FENCE, FRONT, {Partition(""): Offset(3)}))
            assert "have shrunk" in producer.failure("corrupt")


def test_a_listed_file_that_changes_fails_the_source(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path))
        reading.follow().all()
        (tmp_path / "b").write_text("other")
        reading.fence = Front.fence(2)
        assert str(tmp_path / "b") in reading.follow().failure("corrupt")


def test_following_finds_new_files_and_no_unfinished_ones(tmp_path: Path) -> None:
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path), follow=True).follow()
        (tmp_path / ".a").write_text("hidden")
        (tmp_path / "b.tmp").write_text("unfinished")
        (tmp_path / ".a2").write_text("one")
        (tmp_path / ".a2").rename(tmp_path / "a2")
        assert reading.next() == ("a2", [Document("a2", "one")])
        (tmp_path / "b.tmp").rename(tmp_path / "b")
        assert reading.next() == ("b", [Document("b", "unfinished")])


def test_following_continues_what_is_named_and_begins_the_rest(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path), follow=True).follow(a=1, c=1)
        assert reading.next()[0] == "b"
        driver.settle()
        assert driver.events == []


def test_a_look_at_a_folder_asks_nothing_about_documents_that_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    asked: list[str] = []
    stat = os.stat

    def noted(path: str, **more: bool) -> os.stat_result:
        asked.append(str(path))
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", noted)
    files = LocalFiles([Place(str(tmp_path), "docs")], "**/*")
    reader = FollowedReader(files, Documents("docs", "utf-8"))
    reader.seek({Partition("docs/a"): Offset(1)})
    assert [chunk.partition for chunk in reader.next(9, 999)] == ["docs/b/c"]
    asked.clear()
    assert not reader.next(9, 999)
    assert not {str(tmp_path / "a"), str(tmp_path / "b" / "c")} & set(asked)


@pytest.mark.parametrize(
    ("took", "worked", "idle"), [(0.001, 0.001, 0.05), (0.1, 0.1, 2.0), (0.1, 0.001, 0.1), (0.3, 0.02, 0.4)]
)
def test_the_wait_until_the_next_look_grows_with_the_work_of_one_and_not_with_its_waits(
    monkeypatch: pytest.MonkeyPatch, took: float, worked: float, idle: float
) -> None:
    clock = [0.0, 0.0]

    class Slow(LocalFiles):
        def listing(self, settled_only: bool, known: Container[str] = ()) -> list[Found]:
            clock[:] = [took, worked]
            return []

    now = SimpleNamespace(monotonic=lambda: clock[0], thread_time=lambda: clock[1])
    monkeypatch.setattr(followed, "time", now)
    reader = FollowedReader(Slow([], "**/*"), Documents("docs", "utf-8"))
    reader.seek({})
    assert not reader.next(9, 999)
    assert reader.idle_seconds == pytest.approx(idle)


def test_following_gives_lines_once_they_are_complete(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\ntw")
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path), records="lines", follow=True).follow()
        assert reading.next() == ("log", ["one"])
        with log.open("a") as file:
            file.write("o\nthree\n")
        assert reading.next() == ("log", ["two", "three"])


def test_lines_that_were_read_to_the_end_are_given_again_to_whoever_goes_back_before_them(
    tmp_path: Path,
) -> None:
    with PortDriver() as driver:
        for name in ("a", "b"):
            (tmp_path / name).write_text("one\ntwo\n")
        reading = Reading(driver, path=str(tmp_path), records="lines", follow=True).follow()
        assert [reading.next(), reading.next()] == [("a", ["one", "two"]), ("b", ["one", "two"])]
        # the attempt ended before anything of b had entered, and the process lives on
        reading.fence = Front.fence(2)
        reading.follow(a=2)
        assert reading.next() == ("b", ["one", "two"])
        reading.fence = Front.fence(3)
        reading.follow(a=1, b=2)
        assert reading.next() == ("a", ["two"])


def test_a_packed_file_in_a_followed_folder_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n" * 1000))
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path), records="lines", follow=True).follow()
        lines = list[object]()
        while len(lines) < 1000:
            lines += reading.next()[1]
        (tmp_path / "b").write_text("two\n")
        assert reading.next() == ("b", ["two"])
    assert lines == ["one"] * 1000


@pytest.mark.parametrize(("records", "count"), [("files", 1), ("lines", 2)])
def test_a_replay_notices_a_file_that_is_gone(tmp_path: Path, records: str, count: int) -> None:
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path), records=records, follow=True).read("a/b", 0, count)
        message = reading.failure("corrupt")
    assert "'a/b'" in message
    assert "gone" in message


def test_a_replay_notices_a_file_that_has_shrunk(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\ntwo\n")
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path), records="lines", follow=True).read("log", 1, 2)
        assert "records 1 to 2 of 'log'" in reading.failure("corrupt")


def test_a_replay_notices_another_document(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path), follow=True).follow()
        reading.next()
        (tmp_path / "a").write_text("two")
        assert "not what it was" in reading.read("a", 0, 1).failure("corrupt")


def test_a_replay_reads_documents_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    with PortDriver() as driver:
        Reading(driver, path=str(tmp_path), follow=True).read("a", 0, 1)
        assert list(driver.take(RunRead).payloads) == [Document("a", "one")]


def test_a_followed_log_that_shrinks_fails_the_source(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\ntwo\n")
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path), records="lines", follow=True).follow()
        reading.next()
        (tmp_path / "log").write_text("on")
        assert "shrunk" in reading.failure("corrupt")


def test_a_big_folder_is_read_ahead_within_bounds(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number:04}").write_text(str(number))
    with PortDriver() as driver:
        reading = Reading(driver, path=str(tmp_path))
        reading.follow()
        names = [document.name for document in reading.all()]  # type: ignore[attr-defined]
    assert names == [f"{number:04}" for number in range(2000)]


# --- links --------------------------------------------------------------------------------------------------


def watched(tmp_path: Path) -> Path:
    """A folder that somebody else writes into, beside a file that is none of their business."""
    (tmp_path / "secret").write_text("the password")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "plain").write_text("fine")
    return folder


@pytest.mark.parametrize("follow", [False, True])
def test_a_link_that_leaves_the_folder_is_skipped_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, follow: bool
) -> None:
    folder = watched(tmp_path)
    (folder / "a-link").symlink_to(tmp_path / "secret")
    (folder / "b-link").symlink_to("../secret")
    with PortDriver() as driver:
        reading = Reading(driver, path=str(folder), follow=follow).follow()
        found = list(reading.next()[1]) if follow else reading.all()
    assert found == [Document("plain", "fine")]
    (told,) = (record.getMessage() for record in caplog.records if "leaves its folder" in record.getMessage())
    assert "-link" in told and "followLinks: true" in told


def test_a_link_that_leaves_the_folder_is_read_if_the_manifest_says_so(tmp_path: Path) -> None:
    folder = watched(tmp_path)
    (folder / "link").symlink_to(tmp_path / "secret")
    with PortDriver() as driver:
        assert Reading(driver, path=str(folder), followLinks=True).follow().all() == [
            Document("link", "the password"),
            Document("plain", "fine"),
        ]


def test_links_within_the_folder_are_files_as_those_of_a_mounted_config_map(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "..2026").mkdir(parents=True)
    (folder / "..2026" / "key").write_text("value")
    (folder / "..data").symlink_to("..2026")
    (folder / "key").symlink_to("..data/key")
    with PortDriver() as driver:
        assert Reading(driver, path=str(folder), pattern="*").follow().all() == [Document("key", "value")]


def test_a_place_may_be_a_link_itself(tmp_path: Path) -> None:
    folder = watched(tmp_path)
    (tmp_path / "place").symlink_to(folder)
    (tmp_path / "file").symlink_to(folder / "plain")
    with PortDriver() as driver:
        assert Reading(driver, path=str(tmp_path / "place")).follow().all() == [Document("plain", "fine")]
        driver.events.clear()
        assert Reading(driver, path=str(tmp_path / "file")).follow().all() == [Document("file", "fine")]


@pytest.mark.parametrize("growing", [False, True])
def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_opened(tmp_path: Path, growing: bool) -> None:
    folder = watched(tmp_path)
    files = LocalFiles([Place(str(folder), "")], "**/*")
    (found,) = files.listing(settled_only=False)
    (folder / "plain").unlink()
    (folder / "plain").symlink_to(tmp_path / "secret")
    with pytest.raises(Corrupt, match="it is a link now"):
        files.open(found, growing=growing)
