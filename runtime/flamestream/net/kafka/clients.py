"""How to reach Kafka: what a manifest says of it, and librdkafka clients made from that.

>>> KafkaAccess(brokers="host:9092", settings={"sasl.password": "x"})  # doctest: +NORMALIZE_WHITESPACE
Traceback (most recent call last):
ValueError: `settings` holds 'sasl.password', which is a secret: write it as secrets: {sasl.password: {env:
NAME}} or {file: PATH}
>>> KafkaAccess(brokers="host:9092", settings={"acks": 1})
Traceback (most recent call last):
ValueError: `settings` may not set 'acks': exactly-once rests on it

Every other client setting is passed through as it is (SASL, TLS, buffers). Secrets come from the environment
or from files when a client is made; they are never part of a spec, a message or a log. librdkafka's own log
lines go nowhere: what lasts is said by `problem`.

Keeps: settings that a guarantee rests on cannot be changed. Does not: decide what is read or written
(connectors/kafka).
"""

import contextlib
import importlib.util
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flamestream.model.errors import UserError
from flamestream.net.kafka.failures import BrokersAway, failure_of, judged

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

OWN: Final = {
    "bootstrap.servers": "use `brokers`",
    "metadata.broker.list": "use `brokers`",
    "isolation.level": "use `isolation`",
    "auto.offset.reset": "use `start`",
    "partitioner": "use `partitioner`",
    "enable.auto.commit": "offsets are in the job's snapshots",
    "enable.auto.offset.store": "offsets are in the job's snapshots",
    "enable.partition.eof": "it is the engine's",
    "enable.idempotence": "exactly-once rests on it",
    "acks": "exactly-once rests on it",
    "request.required.acks": "exactly-once rests on it",
    "max.in.flight": "exactly-once rests on it",
    "max.in.flight.requests.per.connection": "exactly-once rests on it",
    "transactional.id": "it names job, sink and attempt",
    "message.timeout.ms": "use `transaction.timeout.ms`",
    "delivery.timeout.ms": "use `transaction.timeout.ms`",
}
"""Settings that are not a user's, and what to do instead."""
SECRETS: Final = frozenset({
    "sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem",
    "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config",
    "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.assertion.private.key.passphrase",
})  # fmt: skip
_ONLY_PRODUCERS: Final = frozenset(
    {"transaction.timeout.ms", "linger.ms", "queue.buffering.max.ms", "batch.size", "compression.type"}
)
NO_MORE: Final[Mapping[str, object]] = {}
_silent: Final = logging.getLogger("flamestream.kafka.librdkafka")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Secret(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A secret's place: a variable of the workers' environment, or a file that they can read."""

    env: str | None = None
    """A variable of the workers' environment."""
    file: str | None = None
    """A file that they can read."""

    def __post_init__(self) -> None:
        if (self.env is None) == (self.file is None):
            raise ValueError("a secret is either {env: NAME} or {file: PATH}")

    def value(self, name: str) -> str:
        """The secret itself. Raises UserError that says where it was looked for."""
        if self.env is not None:
            if (found := os.environ.get(self.env)) is None:
                raise UserError(f"secret {name}: the workers' environment has no variable {self.env}")
            return found
        assert self.file is not None
        try:
            with open(self.file, encoding="utf-8") as file:
                return file.read().rstrip("\n")
        except OSError as error:
            raise UserError(f"secret {name}: {self.file} cannot be read: {error.strerror}") from error


class KafkaAccess(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of a spec that says where the brokers are and how to log in."""

    brokers: str
    """host:port, several separated by commas."""
    settings: dict[str, str | int | float | bool] = {}
    """librdkafka's, for every client of this source or sink."""
    secrets: dict[str, Secret] = {}
    """Settings that are secret, by name: where each is."""

    def __post_init__(self) -> None:
        if not self.brokers.strip():
            raise ValueError("`brokers` is empty: write host:port, several separated by commas")
        for name in [*self.settings, *self.secrets]:
            if name in OWN:
                raise ValueError(f"`settings` may not set {name!r}: {OWN[name]}")
        for name in self.settings:
            if name in SECRETS:
                instead = f"secrets: {{{name}: {{env: NAME}}}} or {{file: PATH}}"
                raise ValueError(f"`settings` holds {name!r}, which is a secret: write it as {instead}")


def with_absolute_files(part: Any, folder: Path, name: str = "") -> Any:
    """A part of a spec with certificates, files of secrets and Avro schemas relative to the manifest's
    folder."""
    if isinstance(part, dict):
        return {key: with_absolute_files(value, folder, str(key)) for key, value in part.items()}
    is_file = name in ("file", "schema") or name.endswith(".location")
    return str(folder / Path(part).expanduser()) if is_file and isinstance(part, str) else part


def require_package(where: str) -> None:
    """Raises UserError if the extra is not installed."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise UserError(f"{where}: Kafka needs the package confluent-kafka: install flamestream[kafka]")


class Clients:
    """Makes clients of one source or sink. `problem` is the newest trouble that one of them had with its
    brokers."""

    def __init__(self, access: KafkaAccess, name: str) -> None:
        self._access = access
        self._name = name
        self._refusal: KafkaError | None = None
        self._proved = False
        self._said = ""
        """The newest message of librdkafka's about a broker."""
        self.problem = ""

    def producer(self, **settings: object) -> "Producer":
        """A producer for callers that flush; idempotent unless `settings` say that repeats do no harm."""
        from confluent_kafka import Producer  # an extra

        # A flush sends at once, whatever the linger: until then records gather, so that a delivery is one
        # request a partition.
        usual = {"linger.ms": 5, "socket.nagle.disable": True, "queue.buffering.max.messages": 1_000_000}
        with failure_of(self._name):
            return Producer(
                self._settings(usual, (), {"enable.idempotence": True, "acks": "all", **settings})
            )

    def consumer(self, more: Mapping[str, object] = NO_MORE, /, **settings: object) -> "Consumer":
        """A consumer without a group's protocol: partitions are assigned by us, and offsets are in our
        snapshots. `more`: settings that a user's may replace."""
        from confluent_kafka import Consumer  # an extra

        usual = {
            "socket.nagle.disable": True,
            "queued.max.messages.kbytes": 8192,
            # librdkafka wants one of every consumer, and brokers check rights on it. Nothing is ever
            # committed under it.
            "group.id": f"flamestream-{self._name}",
            **more,
        }
        fixed = {
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            # An offset that is gone must be an error, or records would be passed over in silence (!).
            "auto.offset.reset": "error",
            **settings,
        }
        with failure_of(self._name):
            return Consumer(self._settings(usual, _ONLY_PRODUCERS, fixed))

    def reader(self, isolation: str, **more: object) -> "Consumer":
        """A consumer for reading to an end (reading.py): it learns of the end soon."""
        return self.consumer(
            **{"isolation.level": isolation, "enable.partition.eof": True, "fetch.wait.max.ms": 10, **more}
        )

    def admin(self) -> "AdminClient":
        """A client for metadata, and to create topics of our own."""
        from confluent_kafka.admin import AdminClient  # an extra

        with failure_of(self._name):
            return AdminClient(self._settings({"socket.nagle.disable": True}, _ONLY_PRODUCERS, {}))

    @contextlib.contextmanager
    def asking(self, admin: "AdminClient", *where: str) -> Iterator[None]:
        """`failure_of` for a first question: to a refused login librdkafka gives no answer. Until one has
        worked it is the user's."""
        try:
            with failure_of(*where):
                yield
        except BrokersAway as error:
            admin.poll(0)  # what the brokers said meanwhile
            if self._refusal is not None and not self._proved:
                raise judged(self._refusal, ": ".join(where)) from error
            raise BrokersAway(
                f"{error}; no answer from {self._access.brokers}{self._said and f': {self._said}'}"
            ) from error
        self.works()

    def works(self) -> None:
        """Something came back from the brokers."""
        self.problem, self._said, self._proved = "", "", True

    def _settings(
        self, usual: Mapping[str, object], without: Collection[str], fixed: Mapping[str, object]
    ) -> dict[str, Any]:
        mine = {name: value for name, value in self._access.settings.items() if name not in without}
        quick = {
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
            "logger": _silent,
            "error_cb": self._error,
        }
        secrets = {name: secret.value(name) for name, secret in self._access.secrets.items()}
        # Later ones win: a user's settings over ours, which are for speed, and over all of them what a
        # guarantee rests on (!).
        return {"bootstrap.servers": self._access.brokers, **quick, **usual, **mine, **secrets, **fixed}

    def _error(self, error: "KafkaError") -> None:
        """librdkafka says that a broker is away, or refuses us; it goes on trying."""
        self.problem = self._said = str(error.str())
        if error.name() == "_AUTHENTICATION" or (error.name() == "_SSL" and "verif" in self.problem):
            self._refusal = error
