"""A real S3 server over a folder: versitygw, from the Go module proxy, built once into the checkout's
`.cache`.

`FLAMESTREAM_VERSITYGW` names a binary to use instead. Where there is neither that, nor a built one, nor a way
to build one, the tests that need it are skipped, and say so.
"""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from flamestream.store.s3 import S3Store
from support.eventually import eventually
from support.installing import by_go
from support.ports import free_port
from support.processes import kill, suspend

KEY, SECRET = "test", "testsecret"


def binary() -> Path:
    """The server's executable, built if need be (minutes, once)."""
    given = os.environ.get("FLAMESTREAM_VERSITYGW") or shutil.which("versitygw")
    otherwise = ", put versitygw on the PATH, or name it in FLAMESTREAM_VERSITYGW"
    return Path(given) if given else by_go("versitygw", "S3 server", otherwise)


class S3Server:
    """One server process on a port of its own; objects and users' buckets in `folder`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._flags = flags
        self.folder = folder / "objects"
        self._meta = folder / "meta"
        self.folder.mkdir(parents=True)
        self._meta.mkdir()
        self.port = free_port()
        self.atomic = _has_attributes(self.folder)
        """A kill in the middle of a put leaves nothing. Not so with a sidecar: metadata may be left, and then
        the object is neither there (get: 404) nor absent (put: 412)."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Back when it answers."""
        command = [
            str(binary()),
            "--port",
            f"127.0.0.1:{self.port}",
            "--region",
            "us-east-1",
            "--quiet",
            *self._flags,
        ]
        environment = os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        with open(self.folder.parent / "log", "ab") as log:
            backend = ["posix", *([] if self.atomic else ["--sidecar", str(self._meta)]), str(self.folder)]
            self._process = subprocess.Popen([*command, *backend], env=environment, stdout=log, stderr=log)
        eventually(self._answers, "versitygw answers")

    def kill(self) -> None:
        """SIGKILL, and back when it is dead."""
        if self._process is not None:
            kill(self._process.pid)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It hangs: connections stay, nothing is answered."""
        assert self._process is not None
        suspend(self._process.pid)

    def resume(self) -> None:
        """It goes on with what has arrived meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def make_bucket(self, name: str) -> None:
        """An empty bucket."""
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )
        client.create_bucket(Bucket=name)
        client.close()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (
            f"versitygw ended with {self._process.returncode}; see {self.folder.parent}/log"
        )
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def needs_atomic_puts(server: S3Server) -> None:
    """Skip a test that kills the server in the middle of a put where this file system cannot keep an object
    and its metadata together."""
    if not server.atomic:
        pytest.skip(
            "no user attributes on this file system: versitygw keeps metadata apart, "
            "and a kill can leave half an object"
        )


def _has_attributes(folder: Path) -> bool:
    try:
        os.setxattr(folder, b"user.flamestream", b"1")
        os.removexattr(folder, b"user.flamestream")
    except OSError:
        return False
    return True


def store_at(
    endpoint: str,
    bucket: str,
    prefix: str = "team/jobs",
    secret: str = SECRET,
    pauses: list[float] | None = None,
) -> S3Store:
    """A store that does not wait between tries."""
    pause = (lambda seconds: None) if pauses is None else pauses.append
    return S3Store(
        bucket, prefix, endpoint=endpoint, region="us-east-1", access_key=KEY, secret_key=secret, pause=pause
    )
