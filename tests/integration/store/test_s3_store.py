"""The S3 store against a real S3 server: one creator wins, acknowledged objects stay, and a lost answer is
not a lost object."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from flamestream.model.errors import Corrupt, StoreUnavailable, UserError
from flamestream.store.places import store_from
from flamestream.store.s3 import TRIES, S3Store
from flamestream.store.s3_client import _shared
from support.versitygw import KEY, SECRET, S3Server, binary, store_at

buckets = (f"bucket{i}" for i in count())


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    binary()
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def server(shared: S3Server) -> Iterator[S3Server]:
    """The shared server, up again behind a test that killed it."""
    yield shared
    shared.kill()
    shared.start()


@pytest.fixture
def bucket(shared: S3Server) -> str:
    name = next(buckets)
    shared.make_bucket(name)
    return name


@pytest.fixture
def store(shared: S3Server, bucket: str) -> S3Store:
    return store_at(shared.endpoint, bucket)


def test_an_object_is_created_once_and_keeps_its_bytes(store: S3Store) -> None:
    assert store.put_new("job/a", b"first" * 1000)
    assert not store.put_new("job/a", b"second")
    assert not store.put_new("job/a", b"first" * 1000), "equal bytes of another writer are not ours"
    assert store.get("job/a") == b"first" * 1000


def test_of_thirty_writers_of_a_name_one_wins_and_its_bytes_stay(store: S3Store) -> None:
    for number in range(5):
        ready = threading.Barrier(30)

        def write(writer: int, name: str = f"race/{number}", ready: threading.Barrier = ready) -> int | None:
            ready.wait()
            return writer if store.put_new(name, bytes([writer]) * 5000) else None

        with ThreadPoolExecutor(30) as pool:
            won = [winner for winner in pool.map(write, range(30)) if winner is not None]
        assert [bytes([winner]) * 5000 for winner in won] == [store.get(f"race/{number}")]


def test_a_missing_object_is_corrupt_and_named(store: S3Store) -> None:
    with pytest.raises(Corrupt, match="'team/jobs/job/b' is missing in s3://"):
        store.get("job/b")


def test_names_and_deletes(store: S3Store, shared: S3Server, bucket: str) -> None:
    for name in ("job/b", "job/a/2", "job2/x", "job/a/1"):
        store.put_new(name, b"")
    store_at(shared.endpoint, bucket, "team/other").put_new("job/z", b"")
    assert store.names("job/") == ["job/a/1", "job/a/2", "job/b"]
    store.delete("job/b")
    store.delete("job/b")
    assert store.names("") == ["job/a/1", "job/a/2", "job2/x"]


def test_more_names_than_a_page_are_listed(store: S3Store) -> None:
    names = [f"many/{i:04d}" for i in range(1005)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda name: store.put_new(name, b""), names))
    assert store.names("many/") == names


def test_a_url_gives_the_same_store(
    store: S3Store, shared: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    store.put_new("a", b"x")
    assert store_from(f"s3://{bucket}/team/jobs?endpoint={shared.endpoint}&region=us-east-1").get("a") == b"x"


# --- refusals -----------------------------------------------------------------------------------------------


def calls(store: S3Store) -> list[Callable[[], object]]:
    return [
        lambda: store.put_new("a", b"x"),
        lambda: store.get("a"),
        lambda: store.delete("a"),
        lambda: store.names("a"),
    ]


def test_a_wrong_secret_is_refused_at_once_in_clear_words(shared: S3Server, bucket: str) -> None:
    pauses: list[float] = []
    for call in calls(store_at(shared.endpoint, bucket, secret="wrong", pauses=pauses)):
        with pytest.raises(
            StoreUnavailable, match=r"SignatureDoesNotMatch \(HTTP 403\); the secret key is wrong"
        ):
            call()
    assert pauses == []


def test_a_missing_bucket_is_named_and_never_made(shared: S3Server) -> None:
    for call in calls(store_at(shared.endpoint, "nobucket")):
        with pytest.raises(StoreUnavailable, match=r"s3://nobucket/.*NoSuchBucket.*create the bucket"):
            call()


def test_no_credentials_are_a_user_error(
    shared: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(variable, f"{tmp_path}/none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(UserError, match="set AWS_ACCESS_KEY_ID"):
        store_from(f"s3://{bucket}?endpoint={shared.endpoint}")


# --- crashes ------------------------------------------------------------------------------------------------


def test_acknowledged_objects_survive_a_kill_of_the_server(server: S3Server, bucket: str) -> None:
    store = store_at(server.endpoint, bucket)
    acknowledged: list[int] = []
    enough = threading.Event()

    def write(writer: int) -> None:
        for number in range(writer, 100_000, 4):
            try:
                store.put_new(f"kill/{number}", number.to_bytes(4, "big") * 500)
            except StoreUnavailable:
                return
            acknowledged.append(number)
            if len(acknowledged) >= 40:
                enough.set()

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, writer) for writer in range(4)]
        assert enough.wait(60)
        server.kill()
        for writer in writers:
            writer.result()
    with pytest.raises(StoreUnavailable, match=f"gave up after {TRIES} tries"):
        store.get("kill/0")
    server.start()
    assert len(acknowledged) >= 40
    for number in acknowledged:
        assert store.get(f"kill/{number}") == number.to_bytes(4, "big") * 500
    for name in store.names("kill/"):  # what was not acknowledged is there whole or not at all
        assert store.get(name) == int(name[5:]).to_bytes(4, "big") * 500


class Cutting:
    """A proxy that passes requests on and, while `cut` is positive, drops the connection in place of the
    answer."""

    def __init__(self, port: int, before_cut: Callable[[], None] = lambda: None) -> None:
        self._target = port
        self._before_cut = before_cut
        self.cut = 0
        self.seen = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client, socket.create_connection(("127.0.0.1", self._target)) as target:
                self._pass_on(client, target)

    def _pass_on(self, client: socket.socket, target: socket.socket) -> None:
        """One connection, until either side closes: requests go on as they come, answers whole or not at
        all."""
        upstream = threading.Thread(target=_copy, args=(client, target))
        upstream.start()
        try:
            while answer := target.recv(1 << 20):
                if answer.startswith(b"HTTP/1.1 2"):
                    self.seen += 1
                    if self.cut:
                        self.cut -= 1
                        self._before_cut()
                        return
                client.sendall(answer)
        except OSError:
            return
        finally:
            for end in (client, target):
                _shut(end)
            upstream.join()


def _copy(source: socket.socket, to: socket.socket) -> None:
    try:
        while data := source.recv(1 << 20):
            to.sendall(data)
    except OSError:
        return
    finally:
        _shut(to)


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


@pytest.fixture
def proxy(shared: S3Server) -> Iterator[Cutting]:
    made = Cutting(shared.port)
    yield made
    made.close()


def test_a_put_whose_answer_was_lost_is_ours(proxy: Cutting, bucket: str) -> None:
    pauses: list[float] = []
    store = store_at(proxy.endpoint, bucket, pauses=pauses)
    proxy.cut = 1
    assert store.put_new("a", b"mine")
    assert len(pauses) == 1, "there was a second try"
    assert store.get("a") == b"mine"
    _shared.cache_clear()  # and so the connections


def test_a_lost_answer_does_not_make_anothers_object_ours(
    proxy: Cutting, store: S3Store, bucket: str
) -> None:
    other = store_at(proxy.endpoint, bucket)

    def taken() -> None:
        store.delete("a")
        store.put_new("a", b"another's")

    proxy._before_cut = taken
    proxy.cut = 1
    assert not other.put_new("a", b"mine")
    assert store.get("a") == b"another's"
    _shared.cache_clear()  # and so the connections


def test_tries_are_bounded_and_the_pauses_between_them_differ(
    proxy: Cutting, store: S3Store, bucket: str
) -> None:
    pauses: list[float] = []
    cut = store_at(proxy.endpoint, bucket, pauses=pauses)
    store.put_new("a", b"x")
    proxy.cut = 1000
    with pytest.raises(StoreUnavailable, match=f"cannot read 'a' .* gave up after {TRIES} tries"):
        cut.get("a")
    assert proxy.seen == TRIES
    assert len(set(pauses)) == TRIES - 1
    _shared.cache_clear()  # and so the connections


def test_the_server_killed_after_the_write_and_before_the_answer(server: S3Server, bucket: str) -> None:
    """Error after success: the object is there, the writer was told nothing, and finds out by itself when the
    server is back."""
    proxy = Cutting(server.port, before_cut=server.kill)

    def back(seconds: float) -> None:
        """Stands in for the pause before the second try."""
        server.start()

    store = S3Store(
        bucket, endpoint=proxy.endpoint, region="us-east-1", access_key=KEY, secret_key=SECRET, pause=back
    )
    try:
        proxy.cut = 1
        assert store.put_new("a", b"mine")
        assert store.get("a") == b"mine"
    finally:
        _shared.cache_clear()  # and so the connections
        proxy.close()


def test_a_server_that_hangs_is_given_up_on_in_time_and_its_late_write_is_ours(
    server: S3Server, bucket: str
) -> None:
    def back(seconds: float) -> None:
        server.resume()

    store = S3Store(
        bucket,
        endpoint=server.endpoint,
        region="us-east-1",
        access_key=KEY,
        secret_key=SECRET,
        read_seconds=0.2,
        pause=back,
    )
    store.put_new("before", b"")
    server.pause()
    assert store.put_new("a", b"mine")
    assert store.get("a") == b"mine"
    _shared.cache_clear()  # and so the connections


# --- where it is, and with which keys -----------------------------------------------------------------------


def test_keys_of_a_profile_are_found(
    shared: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where boto3 looks, with the region that is there, and the endpoint of the environment."""
    keys = f"[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    for variable in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", shared.endpoint)
    for variable, text in (
        ("AWS_SHARED_CREDENTIALS_FILE", keys),
        ("AWS_CONFIG_FILE", "[default]\nregion = us-east-1\n"),
    ):
        (tmp_path / variable).write_text(text)
        monkeypatch.setenv(variable, str(tmp_path / variable))
    store = store_from(f"s3://{bucket}/profile")
    assert store.put_new("a", b"x")
    assert store.get("a") == b"x"


def test_a_prefix_that_no_object_can_have_is_a_user_error(shared: S3Server, bucket: str) -> None:
    with pytest.raises(UserError, match=r"S3 cannot take this: .* empty path segment; correct its URL"):
        store_at(shared.endpoint, bucket, prefix="team//jobs").put_new("a", b"x")


def test_half_of_the_keys_is_a_user_error(
    shared: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    with pytest.raises(
        UserError, match=r"Partial credentials found in env.* set AWS_ACCESS_KEY_ID and AWS_SECRET"
    ):
        store_from(f"s3://{bucket}?endpoint={shared.endpoint}")
