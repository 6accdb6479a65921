"""The Redis sink and what can be wrong: settings, servers that forget, logins, rights, TLS, keys of others;
against real servers."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("redis")  # an extra

from flamestream.connectors import sinks
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFailed
from flamestream.model.errors import ManifestError
from flamestream.model.quoted import plain
from flamestream.testing.consumer_contract import Worker, fence
from flamestream.testing.port_driver import PortDriver
from support.places.redis_places import Key
from support.places.things import opened, things
from support.ports import free_port
from support.redis import RedisServer, redis_server

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "redis.md"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as made:
        yield made


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"url": "redis://me:secret@host"}, "a password does not belong into a manifest"),
        ({"url": "redis://host?password=secret"}, "a password does not belong into a manifest"),
        ({"url": "http://host"}, "`url` is not one of Redis"),
        ({"url": "redis://host?decode_responses=yes"}, "`url` may not set decode_responses"),
        ({"form": "hash"}, "`form: hash` needs `field`"),
        ({"field": "word"}, "`form: stream` has none"),
        ({"fields": {"a": "$nothing"}}, "there is no \\$nothing"),
        ({"fields": []}, "at least one field"),
        ({"max_length": 0}, "at least 1"),
        ({"key": "{}a"}, "which has no hash tag"),
        ({"key": "a}"}, "which has no hash tag"),
        ({"key": ""}, "which has no hash tag"),
        ({"durable": False, "history": "h"}, "`history` needs `durable`"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError, match=says) as refused:
        sinks.describe({"redis": {"url": "redis://host", "key": "k", "form": "stream", **settings}})
    assert "secret" not in str(refused.value)


def test_only_a_durable_one_fences() -> None:
    spec = {"url": "redis://host", "key": "k", "form": "stream"}
    assert sinks.describe({"redis": spec}).fences
    traits = sinks.describe({"redis": spec | {"durable": False}})
    assert (traits.fences, "`appendonly yes`" in traits.refusal) == (False, True)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"appendonly": "no"}, "set `appendonly yes`"),
        ({"appendfsync": "everysec"}, "set `appendfsync always`"),
        ({"no_appendfsync_on_rewrite": "yes"}, "set `no-appendfsync-on-rewrite no`"),
        ({"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"}, "set `maxmemory-policy noeviction`"),
    ],
)
def test_a_server_that_may_forget_is_refused(driver: PortDriver, settings: dict[str, str], says: str) -> None:
    with redis_server(**settings) as server:
        Worker(Key(server, form="stream"), "w1", driver).send_open(fence(1), 0)
        failed = driver.take(SinkFailed)
        assert failed.category == "user"
        assert says in failed.message
        assert "durable: false" in failed.message


def test_a_server_that_does_not_say_whether_it_forgets_is_refused(driver: PortDriver) -> None:
    with redis_server() as server:
        server.call("ACL", "SETUSER", "default", "-config")
        Worker(Key(server, form="stream"), "w1", driver).send_open(fence(1), 0)
        failed = driver.take(SinkFailed)
        assert (failed.category, "asked with CONFIG GET: allow it" in failed.message) == ("user", True)


def test_a_server_that_forgets_will_do_without_fences(driver: PortDriver) -> None:
    """It takes what comes, also behind a restart without its data."""
    with redis_server(appendonly="no") as server:
        place = Key(server, form="stream", durable=False)
        worker = opened(place, driver, 0)
        worker.deliver(fence(1), things(0, 1, "a"))
        server.restart()
        worker.deliver(fence(1), things(0, 2, "b"))
        assert [entry["payload"] for entry in place.stream()] == ["b"]
        assert server.call("KEYS", "*") == [place.name]


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_wrong_password_ends_the_job_and_is_in_no_message(
    driver: PortDriver, password: str | None, tmp_path: Any
) -> None:
    with redis_server(requirepass="right") as server:
        place = Key(server, form="stream")
        if password:
            (tmp_path / "password").write_text(password)
            place.spec["redis"]["password_file"] = str(tmp_path / "password")
        Worker(place, "w1", driver).send_open(fence(1), 0)
        failed = driver.take(SinkFailed)
        assert (failed.category, "REDISCLI_AUTH or `password_file`" in failed.message) == ("user", True)
        assert "wrong" not in failed.message.replace("wrong number", "")


@pytest.mark.parametrize("by", ["file", "environment"])
def test_the_right_password_lets_in(
    driver: PortDriver, tmp_path: Any, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis_server(requirepass="right") as server:
        place = Key(server, form="stream")
        if by == "file":
            (tmp_path / "password").write_text("right\n")
            place.spec["redis"]["password_file"] = str(tmp_path / "password")
        else:
            monkeypatch.setenv("REDISCLI_AUTH", "right")
        opened(place, driver, 0).deliver(fence(1), things(0, 1, "a"))
        assert len(place.stream()) == 1


def test_the_rights_that_are_documented_will_do(driver: PortDriver, tmp_path: Any) -> None:
    rights = (
        "+client|setname +config|get +eval +evalsha +hmget +hset +type +xadd +sadd +rpush +llen +smembers "
        "+lrange ~orders ~flamestream:*"
    )
    assert rights.partition(" +xadd")[0] in " ".join(DOCUMENT.read_text().split())
    (tmp_path / "password").write_text("right")
    with redis_server() as server:
        server.call("ACL", "SETUSER", "writer", "on", ">right", *rights.split())
        place = Key(
            server, form="stream", key="orders", history="h", url=f"redis://writer@127.0.0.1:{server.port}",
            password_file=str(tmp_path / "password"),
        )  # fmt: skip
        opened(place, driver, 0).deliver(fence(1), things(0, 1, "a"))
        assert [value for _, _, _, value in sinks.read(place.spec)] == ["a"]
        place.spec["redis"]["key"] = "elsewhere"
        late = Worker(place, "w2", driver)
        late.open(fence(2), 0)
        late.send(fence(2), things(0, 1, "b"))
        failed = driver.take(SinkFailed)
        assert (failed.category, "permission" in failed.message.lower()) == ("user", True)


def test_over_a_unix_socket(driver: PortDriver, tmp_path: Any) -> None:
    with redis_server(unixsocket=str(tmp_path / "s")) as server:
        place = Key(server, form="stream", url=f"unix://{tmp_path / 's'}")
        opened(place, driver, 0).deliver(fence(1), things(0, 1, "a"))
        assert len(place.stream()) == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")
def test_over_tls(driver: PortDriver, tmp_path: Any) -> None:
    """Only with the right certificate."""
    names = ["-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1"]
    for name in ("its", "other"):
        files = ["-keyout", f"{tmp_path / name}.key", "-out", f"{tmp_path / name}.crt"]
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
        subprocess.run(make, check=True, capture_output=True, timeout=60)
    its, port = f"{tmp_path / 'its'}", free_port()
    its_files = {
        "tls_cert_file": f"{its}.crt",
        "tls_key_file": f"{its}.key",
        "tls_ca_cert_file": f"{its}.crt",
    }
    with redis_server(tls_port=str(port), tls_auth_clients="no", **its_files) as server:
        place = Key(server, form="stream", url=f"rediss://127.0.0.1:{port}?ssl_ca_certs={its}.crt")
        opened(place, driver, 0).deliver(fence(1), things(0, 1, "a"))
        assert len(place.stream()) == 1
        place.spec["redis"]["url"] = f"rediss://127.0.0.1:{port}?ssl_ca_certs={tmp_path / 'other'}.crt"
        other = Worker(place, "w2", driver)
        other.send_open(fence(2), 0)
        driver.until(
            lambda: "certificate" in getattr(other.consumer, "problem", "").lower(),
            "a `problem` that says so",
        )


def test_a_key_that_holds_something_else_is_named(server: RedisServer, driver: PortDriver) -> None:
    place = Key(server, form="stream")
    server.call("SET", place.name, "mine")
    opened(place, driver, 0).send(fence(1), things(0, 1, "a"))
    failed = driver.take(SinkFailed)
    assert (failed.category, f"{place.name} holds a string" in failed.message) == ("user", True)
    assert server.call("GET", place.name) == "mine"


def test_a_payload_without_the_field_is_named(server: RedisServer, driver: PortDriver) -> None:
    opened(Key(server, form="hash", field="name"), driver, 0).send(fence(1), things(0, 1, "no thing"))
    assert "there is no 'name' in a str: 'no thing'" in plain(driver.take(SinkFailed).message)


def test_a_server_without_memory_is_told_and_nothing_is_lost(driver: PortDriver) -> None:
    with redis_server() as server:
        place = Key(server, form="stream")
        worker = opened(place, driver, 0)
        server.call("CONFIG", "SET", "maxmemory", "1")
        worker.send(fence(1), things(0, 1, "a", "b"))
        driver.until(
            lambda: "maxmemory" in getattr(worker.consumer, "problem", ""), "a `problem` that says so"
        )
        assert place.stream() == []
        server.call("CONFIG", "SET", "maxmemory", "0")
        driver.take(BundlesAcknowledged)
        assert len(place.stream()) == 2


@pytest.mark.parametrize("restart", [True, False])
def test_a_sink_that_lost_what_it_had_is_corrupt(
    server: RedisServer, driver: PortDriver, restart: bool
) -> None:
    """As after the restore of an older backup, or FLUSHALL."""
    place = Key(server, form="stream")
    worker = opened(place, driver, 0)
    worker.deliver(fence(1), things(0, 1, "a"))
    server.call("DEL", place.state)
    if restart:
        server.restart()
    worker.send(fence(1), things(0, 2, "b"))
    failed = driver.take(SinkFailed)
    assert failed.category == "corrupt"
    assert ("it had bundle 1 of slot 0 and now has 0" if restart else "has lost slot 0") in failed.message
    assert [entry["payload"] for entry in place.stream()] == ["a"]


def test_state_that_somebody_changed_is_noticed(server: RedisServer, driver: PortDriver) -> None:
    place = Key(server, form="stream")
    worker = opened(place, driver, 0)
    server.call("HSET", place.state, "0:sequence", 5)
    worker.send(fence(1), things(0, 1, "a"))
    failed = driver.take(SinkFailed)
    assert (failed.category, "bundle 1 cannot follow 5" in failed.message) == ("corrupt", True)
    assert place.stream() == []
