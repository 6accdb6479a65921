"""The operator opens a job's store with that job's keys, at endpoints that are allowed: what it has itself is
never sent anywhere."""

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from flamestream.model.errors import Corrupt, UserError
from flamestream.store.places import store_from
from flamestream_operator.coordination.job_store import job_store
from flamestream_operator.site import Allowed

OWN = {
    "AWS_ACCESS_KEY_ID": "OPERATORS-KEY",
    "AWS_SECRET_ACCESS_KEY": "operators-secret",
    "AWS_SESSION_TOKEN": "operators-session",
}
KEYS = ("JOBS-KEY", "jobs-secret")


class Bucket:
    """An S3 server of somebody's that writes down who asks."""

    def __init__(self) -> None:
        self.heads: list[dict[str, str]] = []
        heads = self.heads

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heads.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(404)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.url = f"s3://bucket/p?endpoint={self.endpoint}&region=us-east-1"


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    made = Bucket()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def operators_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a node's role, a pod's identity or a careless chart would give it."""
    for name, value in OWN.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("keys", [("", ""), ("JOBS-KEY", ""), ("", "jobs-secret")])
def test_a_store_without_keys_of_its_job_is_not_opened(bucket: Bucket, keys: tuple[str, str]) -> None:
    with pytest.raises(UserError, match=r"does not lend its own: name a Secret, checkpoint\.secret"):
        job_store(bucket.url, keys, Allowed(store_endpoints=(bucket.endpoint,)))
    assert bucket.heads == []


def test_with_keys_of_its_job_nothing_of_the_operators_goes_along(bucket: Bucket) -> None:
    with pytest.raises(Corrupt):
        job_store(bucket.url, KEYS, Allowed(store_endpoints=(bucket.endpoint,))).get("x")
    (head,) = bucket.heads
    assert "Credential=JOBS-KEY/" in head["authorization"]
    assert not [name for name, value in head.items() if "operators" in value.lower()]
    assert "x-amz-security-token" not in head


def test_where_a_process_is_the_jobs_own_it_uses_what_it_finds(bucket: Bucket) -> None:
    """In a worker's pod, or on one machine."""
    with pytest.raises(Corrupt):
        store_from(bucket.url).get("x")
    assert bucket.heads[0]["x-amz-security-token"] == "operators-session"


@pytest.mark.parametrize("endpoint", ["http://169.254.169.254", "http://127.0.0.1:1"])
def test_an_endpoint_that_is_not_allowed_is_not_asked(bucket: Bucket, endpoint: str) -> None:
    """A savepoint's status names one, and others may have written it."""
    with pytest.raises(UserError, match=r"allow\.storeEndpoints"):
        job_store(f"s3://bucket/p?endpoint={endpoint}", KEYS, Allowed(store_endpoints=(bucket.endpoint,)))


@pytest.mark.parametrize(
    "url",
    [
        "/etc",
        "file:///etc",
        "file://localhost/etc",
        "s3://bucket/p?region=x@evil.example/%23",
        "s3://evil.example:80/p",
    ],
)
def test_what_is_no_s3_store_is_not_opened(url: str) -> None:
    with pytest.raises(UserError):
        job_store(url, KEYS, Allowed())
