"""`kubectl flamestream query` asks the workers that take part, one after the other, until there is an answer."""

import base64
import json
import os
import ssl
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flamestream.cli.kubectl import query
from flamestream.cli.kubectl.main import main
from flamestream.job.exit_codes import ExitCode
from support.ports import free_port
from support.runs.command_lines import Said, Terminal
from support.zookeeper.authority import Authority

KUBECTL = """#!{python}
import json, os, signal, sys
words = sys.argv[1:]
there = json.load(open(os.environ["THERE"]))
if words[0] == "port-forward":
    found = there["forwards"].get(words[3].removeprefix("pod/"))
    if not isinstance(found, int):
        sys.exit(found or "Error from server (NotFound): pods not found")
    print(f"Forwarding from 127.0.0.1:{{found}} -> {{words[4][1:]}}", flush=True)
    signal.pause()
kind = words[1].partition(".")[0]
if kind not in there:
    sys.exit(f"Error from server (NotFound): there is no {{kind}}")
print(json.dumps(there[kind]))
"""
TOKEN = "open sesame"
ANSWER = {
    "time": "9",
    "rows": [{"name": "accounts", "key": "ann", "state": 70}, {"name": "accounts", "key": "bob"}],
}
ROWS = ("accounts['ann']", "accounts['bob']")


class Worker:
    """A port that answers as it is told to, and notes what it was asked: a thread's server, until `close`."""

    def __init__(self, certificate: Path | None = None) -> None:
        """`certificate`: a folder with one and its key, for TLS."""
        self.asked: list[tuple[str, str | None, Any]] = []
        self.answers: list[tuple[int, Any]] = []
        """Status and body of each answer; the last one again and again."""
        worker = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                worker.asked.append((self.path, self.headers["authorization"], body))
                status, told = worker.answers.pop(0) if len(worker.answers) > 1 else worker.answers[0]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(told).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Cluster:
    """What kubectl knows; tests change it."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        self.folder, self._terminal = folder, terminal
        self.job: dict[str, Any] = {
            "metadata": {"name": "bank", "namespace": "n"},
            "spec": {"queries": {"listen": "0.0.0.0:7070"}},
        }
        self.secret = {"token": TOKEN}
        self.forwards: dict[str, int | str] = {}
        """Where the port of a pod is on this machine, or what kubectl says."""

    def types(self, *words: str) -> Said:
        """`kubectl flamestream query bank ROWS...`."""
        return self.types_of(ROWS, *words)

    def types_of(self, rows: Sequence[str], *words: str, command: str = "query") -> Said:
        """`kubectl flamestream query bank`, of these; or another command."""
        there = {
            "flamestreamjobs": self.job,
            "secret": {
                "data": {key: base64.b64encode(its.encode()).decode() for key, its in self.secret.items()}
            },
            "pods": {"items": [{"metadata": {"name": name}} for name in self.forwards]},
            "forwards": self.forwards,
        }
        (self.folder / "there").write_text(json.dumps(there))
        return self._terminal.run(command, "bank", *rows, *words)


@pytest.fixture
def cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(KUBECTL.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("THERE", str(tmp_path / "there"))
    for name, seconds in (("ONE_WORKER", 0.2), ("PAUSE", 0.0)):
        monkeypatch.setattr(query, name, seconds)
    return Cluster(tmp_path, Terminal(main, capsys))


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    made = Worker()
    made.answers = [(200, ANSWER)]
    cluster.forwards = {"bank-1": made.port}
    yield made
    made.close()


def test_a_worker_is_asked_with_the_token_of_the_secret_and_by_the_job_s_identity(
    cluster: Cluster, worker: Worker
) -> None:
    said = cluster.types()
    assert (said.code, said.out) == (
        0,
        "accounts['ann'] = 70\naccounts['bob'] = nothing\nstrict, as of 9 (1970-01-01T00:00:00.000Z)\n",
    )
    read = [["accounts", "ann"], ["accounts", "bob"]]
    assert worker.asked == [
        ("/v1/jobs/n.bank/query", f"Bearer {TOKEN}", {"read": read, "at": "strict", "at_least": "0"})
    ]


def test_what_is_said_of_the_answer_is_what_flamestream_query_says(cluster: Cluster, worker: Worker) -> None:
    cluster.job["status"] = {"identity": "n.before"}
    said = cluster.types("--at", "stale", "--at-least", "7", "--json")
    assert said.document == {
        "at": "stale",
        "time": 9,
        "moment": "1970-01-01T00:00:00.000Z",
        "rows": [{"row": ROWS[0], "state": 70}, {"row": ROWS[1]}],
    }
    (path, _, body) = worker.asked[0]
    assert (path, body["at"], body["at_least"]) == ("/v1/jobs/n.before/query", "stale", "7")


@pytest.mark.parametrize("gone", ["closed", "NotFound"])
def test_another_worker_is_asked_where_one_does_not_answer(
    cluster: Cluster, worker: Worker, gone: str
) -> None:
    cluster.forwards = {"bank-0": free_port() if gone == "closed" else "", **cluster.forwards}
    assert cluster.types().code == 0


def test_a_job_that_recovers_is_asked_again(cluster: Cluster, worker: Worker) -> None:
    worker.answers = [*[(503, {"error": "the job recovers"})] * 3, (200, ANSWER)]
    assert cluster.types().code == 0
    assert len(worker.asked) == 4


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (404, ExitCode.USAGE),
        (403, ExitCode.JOB_FAILED),
        (409, ExitCode.JOB_FAILED),
        (401, ExitCode.JOB_FAILED),
    ],
)
def test_a_refusal_ends_the_command_with_its_reason(
    cluster: Cluster, worker: Worker, status: int, code: ExitCode
) -> None:
    worker.answers = [(status, {"error": "because"})]
    said = cluster.types()
    assert (said.code, "because" in said.err, len(worker.asked)) == (code, True, 1)


def test_who_may_not_forward_a_port_is_told_so_at_once(cluster: Cluster) -> None:
    forbidden = (
        'Error from server (Forbidden): pods "bank-1" is forbidden: User "u" cannot create pods/portforward'
    )
    cluster.forwards = {"bank-1": forbidden}
    said = cluster.types()
    assert (said.code, forbidden in said.err) == (ExitCode.JOB_FAILED, True)


@pytest.mark.parametrize(
    ("forwards", "reason"), [({}, "none of its workers takes part"), ({"bank-1": ""}, "NotFound")], ids=str
)
def test_a_job_that_does_not_answer_in_time_is_unavailable(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, forwards: dict[str, int | str], reason: str
) -> None:
    monkeypatch.setattr(query, "PATIENCE", 0.1)
    cluster.forwards = forwards
    said = cluster.types()
    assert (said.code, reason in said.err) == (ExitCode.UNAVAILABLE, True)


def test_a_job_with_a_token_of_its_own_is_asked_with_that(cluster: Cluster, worker: Worker) -> None:
    cluster.job["spec"]["queries"]["tokenFile"] = "/etc/mine/token"
    said = cluster.types()
    assert (said.code, "give it with --token-file" in said.err) == (ExitCode.USAGE, True)
    file = cluster.folder / "token"
    file.write_text("abracadabra\n")
    assert cluster.types("--token-file", str(file)).code == 0
    assert worker.asked[0][1] == "Bearer abracadabra"


def test_a_job_without_a_port_cannot_be_asked_strictly(cluster: Cluster) -> None:
    del cluster.job["spec"]["queries"]
    said = cluster.types("--at", "strict")
    assert (said.code, "has no port for queries: add queries" in said.err) == (ExitCode.USAGE, True)


def test_a_name_alone_is_a_page_of_its_keys(cluster: Cluster, worker: Worker) -> None:
    rows = [{"key": "ann", "state": 70}, {"key": ["b", 1], "state": None}]
    worker.answers = [(200, {"time": "9", "rows": rows, "cursor": "Yg=="})]
    said = cluster.types_of(["accounts"], "--prefix", "a", "--limit", "2", "--cursor", "YQ==")
    assert said.out == (
        "accounts['ann'] = 70\naccounts[['b', 1]] = None\n"
        "strict, as of 9 (1970-01-01T00:00:00.000Z); more with --cursor Yg==\n"
    )
    asked = {"scan": "accounts", "prefix": "a", "limit": 2, "cursor": "YQ=="}
    assert worker.asked[0][2] == asked | {"at": "strict", "at_least": "0"}
    found = cluster.types_of(["accounts"], "--json").document
    moment = "1970-01-01T00:00:00.000Z"
    assert found == {"at": "strict", "time": 9, "moment": moment, "rows": rows, "cursor": "Yg=="}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def sealed(cluster: Cluster, authority: Authority) -> Iterator[Worker]:
    """A worker whose certificate is for the job's Service."""
    folder = authority.server("bank-queries.n.svc")
    made = Worker(folder)
    made.answers = [(200, ANSWER)]
    cluster.forwards = {"bank-1": made.port}
    cluster.job["spec"]["queries"]["tls"] = {"secret": "bank-tls"}
    cluster.secret["tls.crt"] = (folder / "tls.crt").read_text()
    yield made
    made.close()


def test_a_certificate_is_that_of_the_secret_or_of_an_authority_for_the_service(
    cluster: Cluster, authority: Authority, sealed: Worker
) -> None:
    (cluster.folder / "ca.pem").write_text(authority.text)
    assert [cluster.types(*words).code for words in ((), ("--ca-file", str(cluster.folder / "ca.pem")))] == [
        0,
        0,
    ]


def test_another_certificate_is_refused_before_the_token_is_sent(
    cluster: Cluster, authority: Authority, sealed: Worker
) -> None:
    cluster.secret["tls.crt"] = (authority.server("other.n.svc") / "tls.crt").read_text()
    said = cluster.types()
    assert (said.code, "it is not trusted" in said.err) == (ExitCode.JOB_FAILED, True)
    (cluster.folder / "ca.pem").write_text(authority.text)
    cluster.job["metadata"]["namespace"] = "m"
    said = cluster.types("--ca-file", str(cluster.folder / "ca.pem"))
    assert (said.code, "not valid for 'bank-queries.m.svc'" in said.err) == (ExitCode.JOB_FAILED, True)
    assert sealed.asked == []


def test_a_certificate_that_is_in_pods_alone_needs_its_authority(cluster: Cluster, sealed: Worker) -> None:
    cluster.job["spec"]["queries"]["tls"] = {"certFile": "/a", "keyFile": "/b"}
    said = cluster.types()
    assert (said.code, "--ca-file FILE" in said.err) == (ExitCode.USAGE, True)


def kept(number: int) -> dict[str, Any]:
    """The answer about a row that has had so many changes."""
    changes = [
        {"number": each, "slots": 1, "key": "ann", "before": each - 1, "after": each, "deleted": False}
        for each in range(1, number + 1)
    ]
    return {"time": str(number), "rows": [{"state": number}, {"state": changes}]}


def test_a_row_is_watched_at_one_worker_as_long_as_it_answers_and_then_at_the_next(
    cluster: Cluster, worker: Worker
) -> None:
    other = Worker()
    worker.answers = [(200, kept(2)), (200, kept(2)), (503, {"error": "the job recovers"})]
    other.answers = [(200, kept(2)), (200, kept(3))]
    cluster.forwards = {"bank-1": worker.port, "bank-2": other.port}
    try:
        said = cluster.types_of(["accounts['ann']"], "--limit", "2", "--after", "1", command="watch")
    finally:
        other.close()
    assert said.out == "2: accounts['ann'] = 2, was 1\n3: accounts['ann'] = 3, was 2\n"
    read = [["accounts.changed", "ann"], ["accounts.changes", ["ann", 0]]]
    assert other.asked[-1][2] == {"read": read, "at": "stale", "at_least": "2"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--after", "x"], "a number as 12, not 'x'"),
        (["--token-file", "nowhere"], "nowhere"),
        (["--ca-file", "nowhere"], "leave --ca-file out"),
    ],
    ids=str,
)
def test_a_watch_that_cannot_be_is_refused_before_anybody_is_asked(
    cluster: Cluster, worker: Worker, words: list[str], said: str
) -> None:
    refused = cluster.types_of(["accounts['ann']"], *words, command="watch")
    assert (refused.code != ExitCode.OK, said in refused.err, worker.asked) == (True, True, []), refused.err
