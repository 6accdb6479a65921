"""Avro with a schema registry, against a stub that keeps to the registry's documented HTTP API and refuses
everything else."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import flamestream as fs
from flamestream.connectors.kafka.avro import Avro
from flamestream.connectors.kafka.formats import AvroFormat, decoder_of, encoder_of
from flamestream.model.errors import UserError
from flamestream.net.kafka.failures import BrokersAway

pytest.importorskip("fastavro")

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}
JSON = "application/vnd.schemaregistry.v1+json"


class Registry:
    """GET /schemas/ids/{id}, POST /subjects/{subject} (look up a schema), and errors with error_code and
    message."""

    def __init__(self) -> None:
        self.schemas: dict[int, Any] = {}
        self.subjects: dict[str, dict[int, int]] = {}
        self.references: dict[int, list[dict[str, Any]]] = {}
        self.login: str | None = None
        self.failing = 0
        self.asked: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(*registry.answer("GET", self.path, dict(self.headers), b""))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(*registry.answer("POST", self.path, dict(self.headers), body))

            def _answer(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", JSON)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def register(self, subject: str, number: int, schema: Any) -> None:
        self.schemas[number] = schema
        versions = self.subjects.setdefault(subject, {})
        versions[number] = len(versions) + 1

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        self.asked.append(f"{method} {path}")
        if self.failing:
            self.failing -= 1
            return 500, {"error_code": 50001, "message": "Error in the backend data store"}
        if self.login is not None and headers.get("Authorization") != self.login:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        match method, [unquote(part) for part in path.split("/")[1:]]:
            case "GET", ["schemas", "ids", number] if int(number) in self.schemas:
                found = {"schema": json.dumps(self.schemas[int(number)])}
                return 200, found | (
                    {"references": self.references[int(number)]} if int(number) in self.references else {}
                )
            case "GET", ["schemas", "ids", _]:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case "POST", ["subjects", subject] if headers.get("Content-Type") == JSON:
                if subject not in self.subjects:
                    return 404, {"error_code": 40401, "message": "Subject not found"}
                asked = json.loads(json.loads(body)["schema"])
                for known, version in self.subjects[subject].items():
                    if self.schemas[known] == asked:
                        return 200, {
                            "subject": subject,
                            "id": known,
                            "version": version,
                            "schema": json.dumps(asked),
                        }
                return 404, {"error_code": 40403, "message": "Schema not found"}
        return 405, {"error_code": 405, "message": "HTTP 405 Method Not Allowed"}


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def written(
    registry: Registry, tmp_path: Path, schema: Any = FIRST, subject: str | None = "orders-value", **more: Any
) -> AvroFormat:
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    return AvroFormat(
        Avro(schema=str(tmp_path / "order.avsc"), registry=registry.url, subject=subject, **more)
    )


def read(registry: Registry, **more: Any) -> AvroFormat:
    return AvroFormat(Avro(registry=registry.url, **more))


def test_a_record_is_framed_with_the_id_that_the_registry_gives(registry: Registry, tmp_path: Path) -> None:
    registry.register("orders-value", 300, FIRST)
    data = encoder_of(written(registry, tmp_path))(fs.Map({"id": 7}))
    assert data == b"\0" + (300).to_bytes(4, "big") + b"\x0e"
    assert decoder_of(read(registry))(data) == fs.Map({"id": 7})


def test_each_record_is_read_by_the_schema_it_was_written_with(registry: Registry, tmp_path: Path) -> None:
    registry.register("orders-value", 1, FIRST)
    registry.register("orders-value", 2, SECOND)
    decode = decoder_of(read(registry))
    old = encoder_of(written(registry, tmp_path, FIRST))(fs.Map({"id": 7}))
    new = encoder_of(written(registry, tmp_path, SECOND))(fs.Map({"id": 8, "note": "n"}))
    assert [decode(data) for data in (old, new, old)] == [
        fs.Map({"id": 7}),
        fs.Map({"id": 8, "note": "n"}),
        fs.Map({"id": 7}),
    ]


def test_a_schema_is_asked_for_once(registry: Registry, tmp_path: Path) -> None:
    registry.register("orders-value", 1, FIRST)
    encode, decode = encoder_of(written(registry, tmp_path)), decoder_of(read(registry))
    for number in range(5):
        decode(encode(fs.Map({"id": number})))
    assert registry.asked == ["POST /subjects/orders-value", "GET /schemas/ids/1"]


def test_a_subject_may_have_any_name(registry: Registry, tmp_path: Path) -> None:
    registry.register("shop/orders value", 1, FIRST)
    assert (
        encoder_of(written(registry, tmp_path, subject="shop/orders value"))(fs.Map({"id": 7}))[:5]
        == b"\0\0\0\0\1"
    )


@pytest.mark.parametrize("subject", ["nobody-knows", "orders-value"])
def test_a_schema_that_is_not_registered_is_the_users_to_register(
    registry: Registry, tmp_path: Path, subject: str
) -> None:
    registry.register("orders-value", 1, FIRST)
    with pytest.raises(UserError, match=f"not registered under {subject}"):
        encoder_of(written(registry, tmp_path, SECOND, subject))(fs.Map({"id": 7, "note": "n"}))


def test_a_record_of_an_id_that_the_registry_does_not_know_is_not_of_the_format(registry: Registry) -> None:
    with pytest.raises(ValueError, match="has nothing at /schemas/ids/9"):
        decoder_of(read(registry))(b"\0\0\0\0\x09\x0e")


@pytest.mark.parametrize("said", [[1], {"error_code": 1}, {"schema": 6}, "Bad Gateway"], ids=str)
def test_what_is_no_answer_of_a_registry_is_asked_for_again(
    registry: Registry, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy's, while the registry is away: to take it for a record's fault would be another result at
    another time."""
    monkeypatch.setattr(registry, "answer", lambda *_: (200, said))
    with pytest.raises(BrokersAway, match="as no schema registry does"):
        decoder_of(read(registry))(b"\0\0\0\0\x01\x0e")


def test_a_schema_that_is_none_is_the_users_to_mend(registry: Registry) -> None:
    registry.register("orders-value", 1, 6)
    with pytest.raises(UserError, match="the schema is wrong"):
        decoder_of(read(registry))(b"\0\0\0\0\x01\x0e")


def test_a_record_without_an_id_is_not_of_the_format(registry: Registry) -> None:
    with pytest.raises(ValueError, match="not framed"):
        decoder_of(read(registry))(b"\x0e")


def test_a_registry_that_fails_for_now_is_asked_again(registry: Registry) -> None:
    registry.register("orders-value", 1, FIRST)
    registry.failing = 1
    decode = decoder_of(read(registry))
    with pytest.raises(BrokersAway, match="500"):
        decode(b"\0\0\0\0\1\x0e")
    assert decode(b"\0\0\0\0\1\x0e") == fs.Map({"id": 7})


def test_a_registry_that_is_away_is_asked_again() -> None:
    with pytest.raises(BrokersAway):
        decoder_of(AvroFormat(Avro(registry="http://127.0.0.1:1")))(b"\0\0\0\0\1\x0e")


def test_a_registry_that_asks_for_a_login_gets_it(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register("orders-value", 1, FIRST)
    registry.login = "Basic aW5kZXhlcjpzZWNyZXQ="
    with pytest.raises(UserError, match="correct `user`"):
        decoder_of(read(registry))(b"\0\0\0\0\1\x0e")
    monkeypatch.setenv("REGISTRY_LOGIN", "indexer:secret")
    assert decoder_of(read(registry, user="REGISTRY_LOGIN"))(b"\0\0\0\0\1\x0e") == fs.Map({"id": 7})


def test_a_schema_of_several_pieces_is_refused(registry: Registry) -> None:
    registry.register("orders-value", 1, FIRST)
    registry.references[1] = [{"name": "Other", "subject": "other", "version": 1}]
    with pytest.raises(UserError, match="register it in one piece"):
        decoder_of(read(registry))(b"\0\0\0\0\1\x0e")
