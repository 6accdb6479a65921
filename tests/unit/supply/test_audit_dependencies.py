"""An audit of dependencies finds what is known, and does not say that nothing is known where it has heard
nothing."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "scripts"))

import audit_dependencies  # noqa: E402

GOOD, BAD, PACKED = "pkg:pypi/good@1", "pkg:cargo/bad@2", "pkg:maven/g/packed@3"
LIST = {
    "components": [
        {"purl": GOOD},
        {"purl": BAD},
        {"purl": "pkg:maven/g/jar@1", "components": [{"purl": PACKED}]},
    ]
}
Answer = Callable[[list[str]], Any]


@pytest.fixture
def asked() -> list[str]:
    """Of which packages, in all."""
    return []


@pytest.fixture
def serve(asked: list[str]) -> Iterator[Callable[[Answer], str]]:
    """A stand-in for OSV that answers so; its address."""
    servers = []

    def start(answer: Answer) -> str:
        class Osv(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                purls = [query["package"]["purl"] for query in question["queries"]]
                asked.extend(purls)
                data = json.dumps(answer(purls)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        servers.append(HTTPServer(("127.0.0.1", 0), Osv))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def osv(*vulnerable: str) -> Answer:
    return lambda purls: {
        "results": [{"vulns": [{"id": f"V-{purl}"}]} if purl in vulnerable else {} for purl in purls]
    }


def audit(folder: Path, url: str) -> int:
    (folder / "list.json").write_text(json.dumps(LIST))
    return audit_dependencies.main([str(folder / "list.json"), "--url", url])


def test_nothing_known_is_a_pass_and_all_were_asked_about(
    tmp_path: Path, serve: Callable[[Answer], str], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_dependencies, "A_QUESTION", 3)
    assert audit(tmp_path, serve(osv())) == 0
    assert sorted(asked) == sorted([GOOD, BAD, PACKED, "pkg:maven/g/jar@1"])


@pytest.mark.parametrize("vulnerable", [BAD, PACKED])
def test_what_is_known_is_named(
    tmp_path: Path, serve: Callable[[Answer], str], vulnerable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(tmp_path, serve(osv(vulnerable))) == 1
    assert f"V-{vulnerable}  {vulnerable}\n" in capsys.readouterr().out


@pytest.mark.parametrize("answer", [{"results": [{}]}, {}, [], "no"], ids=str)
def test_an_answer_about_less_proves_nothing(
    tmp_path: Path, serve: Callable[[Answer], str], answer: Any
) -> None:
    assert audit(tmp_path, serve(lambda _: answer)) == 7


def test_without_an_answer_nothing_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(tmp_path, "http://127.0.0.1:1/") == 7
    assert "nothing is proved" in capsys.readouterr().err
