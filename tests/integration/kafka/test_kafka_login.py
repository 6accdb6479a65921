"""Kafka with SASL over TLS and access rules, against a broker that asks for them: who is let in, and a
refusal that says what to mend."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flamestream.connectors import sinks, sources
from flamestream.core.protocol.actions import Follow, Pull
from flamestream.core.protocol.events import RecordsArrived, SinkFailed, SourceFailed
from flamestream.model.ids import SinkName, WorkerId
from flamestream.ports import Consumer, Post, Producer, Reactor
from flamestream.testing.consumer_contract import SINK, Worker, bundle, fence
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, PLENTY, Front
from support.kafka_broker.secure import PASSWORD, SecureBroker

MECHANISMS = ["PLAIN", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = SecureBroker(tmp_path_factory.mktemp("kafka-secure"))
    try:
        made.start()
        made.let_in()
        yield made
    finally:
        made.kill()


class Access:
    """A topic, what its user may do with it, and the part of a spec that logs in."""

    def __init__(
        self,
        broker: SecureBroker,
        tmp_path: Path,
        mechanism: str = "PLAIN",
        password: str = PASSWORD,
        **settings: Any,
    ) -> None:
        self.broker = broker
        self.name = broker.topic(1)
        (tmp_path / "password").write_text(password + "\n")
        self.spec = broker.access(mechanism, {"file": str(tmp_path / "password")}, **settings) | {
            "topic": self.name
        }
        self.job = f"job-{uuid4().hex[:8]}"

    def may_read(self) -> "Access":
        self.broker.allow("TOPIC", self.name, "READ", "DESCRIBE")
        self.broker.allow("GROUP", f"flamestream-{self.job}-docs", "READ")
        return self

    def may_write(self) -> "Access":
        self.broker.allow("TOPIC", self.name, "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS")
        self.broker.allow("TOPIC", f"flamestream.{self.job}.{SINK}", "READ", "WRITE", "DESCRIBE", "CREATE")
        self.broker.allow("GROUP", f"flamestream-{self.job}-{SINK}", "READ")
        self.broker.allow(
            "TRANSACTIONAL_ID", f"flamestream.{self.job}.{SINK}.", "WRITE", "DESCRIBE", prefix=True
        )
        return self

    def follow(self, driver: PortDriver) -> Producer:
        producer = sources.build(
            {"kafka": self.spec}, FRONT, driver.post, driver.reactor, name="docs", job=self.job
        )
        driver.at_exit.append(producer.close)
        producer.follow(Follow(Front.fence(1), FRONT, {}))
        producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
        return producer

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(
            {"kafka": self.spec | {"value": "text"}},
            SinkName(SINK),
            WorkerId(writer),
            self.job,
            post,
            reactor,
        )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_source_logs_in(secure: SecureBroker, tmp_path: Path, mechanism: str) -> None:
    access = Access(secure, tmp_path, mechanism).may_read()
    secure.write(access.name, b"a", b"b")
    with PortDriver() as driver:
        access.follow(driver)
        driver.until(lambda: _payloads(driver) == ["a", "b"], "both records")


@pytest.mark.parametrize("form", ["transactional", "low-latency"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_sink_logs_in(secure: SecureBroker, tmp_path: Path, mechanism: str, form: str) -> None:
    access = Access(secure, tmp_path, mechanism).may_write()
    access.spec["form"] = form
    with PortDriver() as driver:
        worker = Worker(access, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1, "written"))
    assert [message.value() for message in secure.read(access.name, form == "transactional")] == [b"written"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_source_with_a_wrong_password_says_what_to_mend(
    secure: SecureBroker, tmp_path: Path, mechanism: str
) -> None:
    with PortDriver() as driver:
        Access(secure, tmp_path, mechanism, "wrong password").follow(driver)
        _is_refused(driver.take(SourceFailed), "correct `secrets`", "wrong password")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_sink_with_a_wrong_password_says_what_to_mend(
    secure: SecureBroker, tmp_path: Path, mechanism: str
) -> None:
    with PortDriver() as driver:
        Worker(Access(secure, tmp_path, mechanism, "wrong password"), "w1", driver).send_open(fence(1), 0)
        _is_refused(driver.take(SinkFailed), "correct `secrets`", "wrong password")


def test_a_broker_that_the_authority_did_not_sign_is_refused(secure: SecureBroker, tmp_path: Path) -> None:
    access = Access(secure, tmp_path)
    del access.spec["settings"]["ssl.ca.location"]
    with PortDriver() as driver:
        access.follow(driver)
        _is_refused(driver.take(SourceFailed), "correct the ssl.* settings")


def test_a_source_without_a_right_says_which(secure: SecureBroker, tmp_path: Path) -> None:
    with PortDriver() as driver:
        Access(secure, tmp_path).follow(driver)
        _is_refused(driver.take(SourceFailed), "grant it Describe, and Read (source)")


def test_a_sink_without_a_right_says_which(secure: SecureBroker, tmp_path: Path) -> None:
    with PortDriver() as driver:
        Worker(Access(secure, tmp_path), "w1", driver).send_open(fence(1), 0)
        _is_refused(driver.take(SinkFailed), "grant it")


def _is_refused(failed: SourceFailed | SinkFailed, says: str, never: str = PASSWORD) -> None:
    assert failed.category == "user", failed.message
    assert says in failed.message
    assert never not in failed.message


def _payloads(driver: PortDriver) -> list[Any]:
    return [
        payload for event in driver.events if isinstance(event, RecordsArrived) for payload in event.payloads
    ]
