"""A driver pod that is deleted stays until the operator deletes it once more."""

import http.server
import json
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from flamestream.spark.streaming import driver_stay


@pytest.mark.parametrize(
    ("pod", "goes"),
    [
        (None, True),
        ({"metadata": {}}, False),
        ({"metadata": {"deletionGracePeriodSeconds": 245}}, False),
        ({"metadata": {"deletionGracePeriodSeconds": 1}}, True),
        ({"metadata": {"deletionGracePeriodSeconds": 0}}, True),
    ],
)
def test_it_goes_when_it_is_gone_or_was_deleted_with_a_second_of_grace(
    pod: dict[str, Any] | None, goes: bool
) -> None:
    assert driver_stay.may_go(pod) is goes


def test_it_asks_for_itself_until_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    class ApiServer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            body = json.dumps(
                {"metadata": {"deletionGracePeriodSeconds": 245 if len(asked) < 4 else 1}}
            ).encode()
            self.send_response(500 if len(asked) == 1 else 200)
            if len(asked) == 2:  # it dies in the middle of an answer
                self.send_header("Content-Length", str(len(body) + 1))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_text("")
    monkeypatch.setattr(driver_stay, "ACCOUNT", tmp_path)
    monkeypatch.setattr(driver_stay, "SCHEME", "http")
    monkeypatch.setattr(driver_stay, "PAUSE", 0)
    monkeypatch.setattr(ssl, "create_default_context", lambda cafile: None)
    for name, value in {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.server_port),
        "POD_NAMESPACE": "space", "POD_NAME": "driver-a-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    try:
        assert driver_stay.main(60) == 0
    finally:
        server.shutdown()
        server.server_close()
    assert asked == [("/api/v1/namespaces/space/pods/driver-a-1", "Bearer secret")] * 4


def test_it_ends_in_time_whatever_it_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_stay, "_pod", lambda: {"metadata": {}})
    assert driver_stay.main(0) == 0
