"""The folder store: created once, whole or not at all, and clear words when the disk does not play along."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flamestream.model.errors import Bug, Corrupt, StoreUnavailable, UserError
from flamestream.store.folder import TEMPORARY, LocalStore
from flamestream.store.places import store_from
from support.eventually import eventually
from support.processes import kill

STOPS_BEFORE_SYNC = """
import os, signal, sys
from pathlib import Path
from flamestream.store.folder import LocalStore
def stop(fd):
    print("written", flush=True)
    signal.pause()
os.fsync = stop
LocalStore(Path(sys.argv[1])).put_new("a", b"half")
"""
TOO_BIG = """
import resource, sys
from pathlib import Path
from flamestream.store.folder import LocalStore
from flamestream.model.errors import StoreUnavailable
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
store = LocalStore(Path(sys.argv[1]))
try:
    store.put_new("big", b"x" * 100_000)
except StoreUnavailable as error:
    sys.exit(f"{error} names={store.names('')}")
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def test_an_object_is_created_once_and_keeps_its_bytes(store: LocalStore) -> None:
    assert store.put_new("job/a", b"first")
    assert not store.put_new("job/a", b"second")
    assert store.get("job/a") == b"first"


def test_of_many_writers_of_a_name_one_wins_and_its_bytes_stay(store: LocalStore) -> None:
    for number in range(10):
        ready = threading.Barrier(8)
        won: list[bytes] = []

        def write(
            body: bytes,
            name: str = f"race/{number}",
            ready: threading.Barrier = ready,
            won: list[bytes] = won,
        ) -> None:
            ready.wait()
            if store.put_new(name, body):
                won.append(body)

        threads = [threading.Thread(target=write, args=(bytes([i]) * 5000,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won == [store.get(f"race/{number}")]


def test_a_missing_object_is_corrupt_and_named(store: LocalStore) -> None:
    store.put_new("job/a", b"")
    for name in ("job/b", "job", "job/a/c"):
        with pytest.raises(Corrupt, match=f"'{name}' is missing"):
            store.get(name)


def test_a_missing_root_is_unavailable_and_never_made_anew(tmp_path: Path) -> None:
    root = tmp_path / "volume"
    with pytest.raises(StoreUnavailable, match=r"volume: .*ENOENT.*mount"):
        LocalStore(root)
    store = LocalStore(root, create=True)
    os.rmdir(root)
    for call in (
        lambda: store.put_new("a", b""),
        lambda: store.get("a"),
        lambda: store.names(""),
        lambda: store.delete("a"),
    ):
        with pytest.raises(StoreUnavailable, match="ENOENT"):
            call()
    assert not root.exists()


def test_deleting_is_idempotent(store: LocalStore) -> None:
    store.put_new("a/b", b"x")
    store.delete("a/b")
    store.delete("a/b")
    assert store.names("") == []
    assert store.put_new("a/b", b"y")


def test_names_are_sorted_cut_by_prefix_and_free_of_temporary_files(store: LocalStore) -> None:
    for name in ("job/b", "job/a/2", "job2/x", "job/a/1"):
        store.put_new(name, b"")
    (store.root / TEMPORARY / "left").write_bytes(b"")
    assert store.names("job/") == ["job/a/1", "job/a/2", "job/b"]
    assert store.names("job/a") == ["job/a/1", "job/a/2"]
    assert store.names("nothing/here") == []


@pytest.mark.parametrize(
    "name",
    ["", "/a", "a/", "../a", "a/../b", ".tmp/x", "a//b", "a\0", "a b", "ä", "a/" + "x" * 256, "a\n", "a\\b"],
)
def test_a_name_that_could_mean_something_else_is_refused(store: LocalStore, name: str) -> None:
    for call in (lambda: store.put_new(name, b""), lambda: store.get(name), lambda: store.delete(name)):
        with pytest.raises(Bug, match="cannot name an object"):
            call()


def test_a_killed_writer_leaves_no_object_and_its_leftovers_go_at_the_next_open(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", STOPS_BEFORE_SYNC, str(tmp_path)], stdout=subprocess.PIPE, env=_environment()
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        store = LocalStore(tmp_path)  # opened while the writer is alive: its work is left alone
        assert len(os.listdir(tmp_path / TEMPORARY)) == 1
        assert store.names("") == []
        with pytest.raises(Corrupt):
            store.get("a")
    finally:
        kill(writer.pid)
        writer.communicate()
    LocalStore(tmp_path)
    eventually(lambda: os.listdir(tmp_path / TEMPORARY) == [], "leftovers are gone")


def test_a_write_that_the_system_cuts_short_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOO_BIG, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )
    assert "EFBIG" in done.stderr
    assert "names=[]" in done.stderr
    assert os.listdir(tmp_path / TEMPORARY) == []


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs a folder that even root cannot write to")
def test_a_read_only_folder_is_unavailable_but_can_be_read() -> None:
    store = LocalStore(Path("/sys/kernel"))
    with pytest.raises(StoreUnavailable, match=r"/sys/kernel.*(EPERM|EROFS|EACCES)"):
        store.put_new("a", b"")


@pytest.mark.parametrize(
    ("code", "advice"),
    [(errno.ENOSPC, "free some space"), (errno.EIO, "check the disk"), (errno.EROFS, "writable")],
)
def test_a_disk_error_says_where_what_and_what_to_do(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(
        StoreUnavailable, match=f"write {store.root}/job/a: .*{errno.errorcode[code]}.*{advice}"
    ):
        store.put_new("job/a", b"x")
    monkeypatch.undo()
    assert store.put_new("job/a", b"x")


def test_a_store_is_chosen_by_its_url(tmp_path: Path) -> None:
    for url in (str(tmp_path), f"file://{tmp_path}", f"file://localhost{tmp_path}"):
        found = store_from(url)
        assert isinstance(found, LocalStore)
        assert found.root == tmp_path


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file://host/x",
        "ftp://x/y",
        "s3://",
        "s3:///prefix",
        "s3://b?secret=x",
        "s3://key:hunter2@bucket/p",
        "s3://b?endpoint=nonsense",
    ],
)
def test_a_url_that_names_no_store_is_a_user_error(url: str) -> None:
    with pytest.raises(UserError) as caught:
        store_from(url)
    assert "hunter2" not in str(caught.value)


def _environment() -> dict[str, str]:
    """The child finds the package where the test found it."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
