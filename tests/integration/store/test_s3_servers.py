"""The S3 store against servers that the one of these tests is not: they answer as told, or speak TLS."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

import pytest

from flamestream.connectors.files.s3 import S3Files, S3Place
from flamestream.model.errors import StoreUnavailable, UserError
from flamestream.store.s3 import S3Store
from flamestream.store.s3_client import _shared
from support.versitygw import KEY, SECRET, S3Server, store_at


class Scripted(BaseHTTPRequestHandler):
    """Answers as told: what the real server here never says."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[list[tuple[int, str]]] = []
    asked: ClassVar[list[str]] = []

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append(f"{self.command} {self.path}")
        status, code = self.answers.pop(0)
        body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST = do_DELETE = do_GET = answer  # http.server's names

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serving(handler: type[Scripted]) -> Iterator[str]:
    """Its endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        _shared.cache_clear()  # and so the connections
        thread.join()
        server.server_close()


@pytest.fixture
def scripted() -> Iterator[tuple[type[Scripted], S3Store]]:
    Scripted.answers, Scripted.asked = [], []
    with serving(Scripted) as endpoint:
        yield Scripted, store_at(endpoint, "bucket", prefix="")


@pytest.mark.parametrize(
    "code", ["ConditionalRequestConflict", "OperationAborted", "ExistingObjectIsDirectory"]
)
def test_a_conflict_of_two_puts_under_way_is_no_answer(
    scripted: tuple[type[Scripted], S3Store], code: str
) -> None:
    """Whoever reads it as "exists already" believes in an object that may never be there."""
    server, store = scripted
    server.answers = [(409, code), (200, "")]
    assert store.put_new("a", b"x")
    assert len(server.asked) == 2


def test_a_server_that_cannot_remove_many_at_once_is_asked_for_each(
    scripted: tuple[type[Scripted], S3Store],
) -> None:
    server, store = scripted
    server.answers = [(501, "NotImplemented"), (204, ""), (204, ""), (204, "")]
    store.delete("a", "b")
    store.delete("c")
    assert server.asked[0].startswith("POST /bucket?delete")
    assert sorted(server.asked[1:]) == ["DELETE /bucket/a", "DELETE /bucket/b", "DELETE /bucket/c"]


def test_keys_that_may_not_remove_are_told_and_many_at_once_is_asked_for_again(
    scripted: tuple[type[Scripted], S3Store],
) -> None:
    """One refusal says nothing about the form of the request."""
    server, store = scripted
    server.answers = [(403, "AccessDenied"), (403, "AccessDenied")]
    with pytest.raises(StoreUnavailable, match="AccessDenied"):
        store.delete("a")
    server.answers = [(403, "AccessDenied"), (403, "AccessDenied")]
    with pytest.raises(StoreUnavailable, match="AccessDenied"):
        store.delete("a")
    assert [asked.split("?")[0] for asked in server.asked] == ["POST /bucket", "DELETE /bucket/a"] * 2


class Odd(Scripted):
    """A bucket with keys that no file system has: an empty part, a part that is a dot, the marker of a
    folder, a control character."""

    objects: ClassVar[dict[str, bytes]] = {
        "in/a//b": b"1",
        "in/a/./b": b"2",
        "in/folder/": b"",
        "in/folder/c\td": b"3",
    }

    def do_GET(self) -> None:
        key = unquote(self.path.partition("?")[0]).removeprefix("/bucket").removeprefix("/")
        entry = "<Contents><Key>{}</Key><Size>{}</Size><ETag>1</ETag></Contents>"
        listed = "".join(entry.format(key, len(data)) for key, data in self.objects.items())
        body = self.objects[key] if key else f"<ListBucketResult>{listed}</ListBucketResult>".encode()
        self.send_response(206 if key else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_a_source_reads_every_key_that_s3_can_have_and_no_marker_of_a_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """obstore can not: it refuses a listing that has one of the first three, and takes the marker for an
    empty file."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with serving(Odd) as endpoint:
        place = S3Place(f"s3://bucket/in?endpoint={endpoint}", "", "path")
        files = S3Files([place], "**")
        assert {file.name: files.open(file).read() for file in files.listing(settled_only=False)} == {
            "a//b": b"1", "a/./b": b"2", "folder/c\td": b"3",
        }  # fmt: skip
        place.calls.client.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_over_tls_with_the_authority_that_boto3_would_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("its", "other"):
        files = ["-keyout", f"{tmp_path / name}.key", "-out", f"{tmp_path / name}.crt"]
        names = [
            "-subj",
            "/CN=s3",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
        subprocess.run(make, check=True, capture_output=True, timeout=60)
    monkeypatch.setenv("VGW_CERT", f"{tmp_path / 'its'}.crt")
    monkeypatch.setenv("VGW_KEY", f"{tmp_path / 'its'}.key")
    server = S3Server(tmp_path)
    (server.folder / "bucket").mkdir()
    server.start()
    try:
        for file, outcome in (
            ("its.crt", "there"),
            ("other.crt", "cannot write .* error sending request .certificate refused: "),
            ("none.crt", "cannot be read"),
        ):
            _shared.cache_clear()
            monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / file))
            endpoint = server.endpoint.replace("http", "https")
            if outcome == "there":
                store = store_at(endpoint, "bucket")
                assert store.put_new("a", b"x")
                assert store.get("a") == b"x"
            else:
                with pytest.raises((StoreUnavailable, UserError), match=outcome):
                    store_at(endpoint, "bucket").put_new("b", b"x")
    finally:
        _shared.cache_clear()
        server.kill()
