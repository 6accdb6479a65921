"""A running bank is asked for balances: by curl's means, by a client, through kills."""

import json
import os
import re
import shutil
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import flamestream as fs
from flamestream.live import kept_changes
from flamestream.live.client import Job
from flamestream.live.kept_changes import Change
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.decoding import from_json
from flamestream.model.errors import ManifestError, Retryable, UserError
from support.eventually import eventually
from support.ports import free_port
from support.runs.scratch import Scratch
from support.zookeeper.authority import Authority

KEPT = 1_000
"""Changes of a row that the table keeps."""
APPLICATION = f"""\
import flamestream as fs

graph = fs.Graph("bank")
accounts = graph.table("accounts", initial=int, check=lambda key, balance: balance >= 0)


def transfer(state, line):
    source, target, amount = line.split()
    state[accounts, source] -= int(amount)
    state[accounts, target] += int(amount)
    return line


lines = graph.source("lines")
lines.filter(lambda line: line[0] == "+").upsert(accounts, lambda line: line[1], lambda line: int(line[2:]))
moved = lines.filter(lambda line: line[0] != "+").transact(transfer)
moved.committed.reduce(name="sent", key=lambda line: (line[0], 1), combine=fs.count()).sink("counts")
moved.aborted.map(lambda a: a.transaction).sink("refused")
accounts.changes().sink("changes", key=fs.field("key"))
accounts.keep_changes({KEPT})
"""
TOKEN = "open sesame"
NAMES = "abcdefgh"


class Bank:
    """The job of a scratch folder, with a port for lines and one for queries."""

    def __init__(self, scratch: Scratch, *more: str) -> None:
        self.scratch, self.lines, self.port = scratch, free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}/v1/jobs/job"
        scratch.write("token", TOKEN)
        scratch.job(
            APPLICATION,
            f'sources: {{lines: {{http: {{listen: "127.0.0.1:{self.lines}", keys: keys, records: lines}}}}}}',
            "sinks:",
            "  counts: {files: {path: counts}}",
            "  refused: {files: {path: refused}}",
            f'  changes: {{events: {{path: changes, listen: "127.0.0.1:{free_port()}"}}}}',
            "journal: {folder: journal}",
            f'queries: {{listen: "127.0.0.1:{self.port}", tokenFile: token{"".join(more)}}}',
            "workers: {replicas: 2, standby: 1}",
            "checkpoint: {interval: 200ms, store: snapshots}",
        )
        scratch.begin("run", "job.yaml", "--no-spark")
        self.sent = 0
        eventually(lambda: self.post(*(f"+{name}100" for name in NAMES)), "the bank opens", within=60)

    def post(self, *lines: str) -> dict[str, Any]:
        """Send lines, again and again until they are taken."""
        self.sent += 1
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.lines}/", "\n".join(lines).encode(), {"Idempotency-Key": str(self.sent)}
        )
        while True:
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    told: dict[str, Any] = json.load(answer)
                    return told
            except urllib.error.HTTPError as error:
                error.close()
            except OSError:
                if self.sent == 1:
                    self.sent = 0
                    return {}

    def get(self, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, dict[str, Any]]:
        """What a program without our client gets."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def arrow(self, path: str, body: Any = None) -> pa.Table:
        """What a program that wants columns gets."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/vnd.apache.arrow.stream"}
        with urllib.request.urlopen(
            urllib.request.Request(self.url + path, data, headers), timeout=60
        ) as answer:
            assert answer.headers["content-type"] == headers["Accept"]
            return pa.ipc.open_stream(answer.read()).read_all()

    def client(self) -> Job:
        return fs.connect(
            self.scratch.path / "job.yaml", run_folder=self.scratch.path / ".flamestream" / "job"
        )

    def workers(self) -> list[int]:
        """Pids of workers that live."""
        folder = self.scratch.path / ".flamestream" / "job" / "workers"
        known = [from_json(file.read_bytes(), ProcessIdentity) for file in folder.glob("*.json")]
        return [each.pid for each in known if each.alive]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    scratch = Scratch(tmp_path_factory.mktemp("bank"))
    yield Bank(scratch)
    scratch.close()


def test_a_state_is_got_by_its_name_and_key(bank: Bank) -> None:
    time = bank.post("+x7")["time"]
    status, told = bank.get(f"/tables/accounts/x?at_least={time}")
    assert (status, told["state"], int(told["time"]) >= int(time)) == (200, 7, True)


def test_several_are_of_one_time_and_keys_are_what_json_has(bank: Bank) -> None:
    bank.post("+y7", "y x 1")
    read = [["accounts", "y"], ["sent", ["y", 1]], ["accounts", "nobody"]]
    status, told = bank.get("/query", {"read": read})
    assert status == 200
    assert told["rows"] == [
        {"name": "accounts", "key": "y", "state": 6},
        {"name": "sent", "key": ["y", 1], "state": 1},
        {"name": "accounts", "key": "nobody"},
    ]


def test_answers_come_as_columns_of_arrow(bank: Bank) -> None:
    """What others make of them is what JSON says."""
    bank.post("+p3", "+q4")
    told = bank.get("/tables/accounts?limit=5")[1]
    table = bank.arrow("/tables/accounts?limit=5")
    assert table.to_pydict() == {name: [row[name] for row in told["rows"]] for name in ("key", "state")}
    assert table.schema.metadata[b"cursor"].decode() == told["cursor"]
    rest = bank.arrow(f"/tables/accounts?limit=100&cursor={told['cursor']}")
    every = sum(duckdb.from_arrow(page).sum("state").fetchall()[0][0] for page in (table, rest))
    assert every == sum(row["state"] for row in bank.get("/tables/accounts")[1]["rows"])
    assert bank.arrow("/tables/accounts/q").to_pylist() == [{"name": "accounts", "key": "q", "state": 4}]
    asked = bank.arrow("/query", {"read": [["accounts", "p"], ["accounts", "nobody"]]})
    assert asked.to_pylist() == [
        {"name": "accounts", "key": "p", "state": 3}, {"name": "accounts", "key": "nobody", "state": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/tables/accounts/nobody", None, 404, "accounts['nobody'] has no state"),
        ("/tables/account/x", None, 404, "keeps nothing named 'account': it has 'accounts', 'sent'"),
        ("/tables/accounts/x?at=soon", None, 400, "at is strict or stale"),
        ("/tables/accounts/x?at_least=soon", None, 400, "at_least is the time of an answer"),
        ("/tables/accounts/x?when=now", None, 400, "when"),
        ("/tables", None, 404, "tables/NAME/KEY"),
        ("/tables/accounts?limit=0", None, 400, "limit is 1 to 10000"),
        ("/tables/accounts?limit=x", None, 400, "limit is a number of keys"),
        ("/tables/accounts?cursor=x", None, 400, "cursor is what an earlier answer said"),
        ("/tables/account", None, 404, "keeps nothing named 'account'"),
        ("/query", {"read": []}, 400, "1 to 256 keys"),
        ("/query", {"read": [["accounts", n] for n in range(257)]}, 413, "1 to 256 keys"),
        ("/query", {"reads": []}, 400, "the body is like"),
        ("/query", {"read": [["accounts", {"a": 1}]]}, 400, "is no key: a dict is not a payload"),
    ],
)
def test_what_cannot_be_answered_is_said(bank: Bank, path: str, body: Any, status: int, said: str) -> None:
    code, told = bank.get(path, body)
    assert (code, said in told["error"]) == (status, True), told


def test_who_has_no_token_is_not_answered(bank: Bank) -> None:
    assert bank.get("/tables/accounts/x", token="guess")[0] == 401


def test_a_client_sees_what_it_was_told_is_taken(bank: Bank) -> None:
    with bank.client() as job:
        accounts = job.table("accounts")
        for balance in range(1, 31):
            time = int(bank.post(f"+z{balance}")["time"])
            assert accounts.get("z", at="stale", at_least=time) == balance
            assert accounts.get("z", at="stale") == balance, "it has seen that before"
        assert accounts.get_many(["z", "nobody"]) == {"z": 30}
        assert accounts.get("nobody", 5) == 5
        assert job.table("sent").get(("nobody", 1)) is None


def test_all_keys_are_given_page_by_page_each_once(bank: Bank) -> None:
    bank.post(*(f"+{letter}{number}" for number, letter in enumerate("ABCDEFG", 1)), "a b 0", "b a 0")
    names = [*NAMES, *"ABCDEFG"]
    with bank.client() as job:
        accounts = job.table("accounts")
        first = accounts.scan(limit=10)
        assert (len(first.rows), bool(first.cursor)) == (10, True)
        assert dict(accounts.rows()).keys() >= set(names)
        pages = [first.rows, accounts.scan(limit=1000, cursor=first.cursor, at="stale").rows]
        assert dict(pages[0] + pages[1]) == dict(accounts.rows())
        assert accounts.scan(prefix="A").rows == (("A", 1),)
    status, told = bank.get("/tables/accounts?prefix=B&limit=5")
    assert (status, told["rows"], "cursor" in told) == (200, [{"key": "B", "state": 2}], False)
    status, told = bank.get("/tables/sent?limit=1")
    assert (status, len(told["rows"]), "cursor" in told) == (200, 1, True)


def changes_of(row: str, watch: Iterator[Change], count: int) -> list[tuple[str, int, int]]:
    """The next changes, all of which are of one row."""
    found = list(islice(watch, count))
    assert {change.key for change in found} == {row}
    return [(change.id, change.before, change.after) for change in found]


@pytest.mark.parametrize("by", ["the manifest", "the URL"])
def test_who_watches_a_row_is_given_each_of_its_changes_once_and_goes_on_where_it_was(
    bank: Bank, by: str
) -> None:
    row = by[-1]
    bank.post(f"+{row}5", f"{row} x 1", f"{row} x 1")
    with bank.client() if by == "the manifest" else fs.connect(bank.url, token=TOKEN) as job:
        accounts = job.table("accounts")
        assert changes_of(row, accounts.watch(row), 3) == [("1", 0, 5), ("2", 5, 4), ("3", 4, 3)]
        bank.post(f"+{row}9", f"+{row}1")
        assert changes_of(row, accounts.watch(row, after="2"), 3) == [("3", 4, 3), ("4", 3, 9), ("5", 9, 1)]
        time = int(bank.post(*(f"+{row}{balance}" for balance in range(2, 1997)))["time"])
        read = job.read(("accounts", row), ("accounts.changed", row), at_least=time)
        assert read.states == (1996, 2000)
        with pytest.raises(UserError, match=r"change 6 of accounts\['.'\] is not kept any more: ask for"):
            next(accounts.watch(row, after="5"))
        every = [(str(number), number - 5, number - 4) for number in range(993, 2001)]  # 1,008 are kept
        assert changes_of(row, accounts.watch(row), 1008) == every
        assert changes_of(row, accounts.watch(row, after="1800"), 200) == every[-200:]


def test_all_rows_are_watched_over_a_sink_of_events(bank: Bank) -> None:
    bank.post("+w5", "w x 1")
    with bank.client() as job:
        watch = (change for change in job.table("accounts").watch() if change.key == "w")
        first = next(watch)
        assert (first.before, first.after) == (0, 5)
        behind = (change for change in job.table("accounts").watch(after=first.id) if change.key == "w")
        assert next(behind).after == 4
        with pytest.raises(ManifestError, match="no sink of events has the changes of 'sent'"):
            job.table("sent").watch()
    with (
        fs.connect(bank.url, token=TOKEN) as job,
        pytest.raises(ManifestError, match="connect by the manifest"),
    ):
        job.table("accounts").watch()


def test_who_knows_a_state_is_answered_when_it_is_another(bank: Bank) -> None:
    def told(known: int | None) -> Any:
        asked = {"read": [["accounts", "u"]], "at": "stale", "unlike": [known]}
        status, answer = bank.get("/query", asked)
        assert status == 200
        return answer["rows"][0].get("state")

    time = bank.post("+u3")["time"]
    bank.get(f"/tables/accounts/u?at=stale&at_least={time}")
    assert (told(None), told(2), told(3)) == (3, 3, 3), "the last one in the end"
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(iter(lambda: told(3), 4)))
    waiting.start()
    bank.post("+u4")
    waiting.join(60)
    assert not waiting.is_alive() and set(found) <= {3}


def test_a_watch_cannot_begin_where_nothing_is(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_changes, "PATIENCE", 0.0)
    with bank.client() as job:
        with pytest.raises(UserError, match="has had 0 changes: a watch cannot go on behind 3"):
            next(job.table("accounts").watch("nobody", after="3"))
        with pytest.raises(UserError, match="a number as 12, not 'x'"):
            next(job.table("accounts").watch("nobody", after="x"))


def test_the_command_shows_changes_and_goes_on_behind_one(bank: Bank) -> None:
    bank.post("+v5", "v x 1", "+v7")
    said = bank.scratch.type("watch", "job.yaml", "accounts['v']", "--limit", "2")
    assert said.text == "1: accounts['v'] = 5, was 0\n2: accounts['v'] = 4, was 5\n"
    said = bank.scratch.type("watch", "job.yaml", "accounts['v']", "--after", "2", "--limit", "1", "--json")
    assert json.loads(said.text) == {"id": "3", "key": "v", "before": 4, "after": 7, "deleted": False}


def test_a_watch_sees_each_change_once_while_workers_die(scratch: Scratch) -> None:
    """Each change leads to the next, and the last one to what the row is."""
    bank, over = Bank(scratch), threading.Event()
    ahead = threading.Semaphore(KEPT // 4)  # of posts: the watch never falls behind what is kept

    def transfers() -> None:
        while ahead.acquire() and not over.is_set():
            bank.post("a b 1", "b a 1")

    writer = threading.Thread(target=transfers)
    writer.start()
    try:
        with fs.connect(bank.url, token=TOKEN) as job:
            balance = seen = 0
            for victim in range(3):
                pids, goal = bank.workers(), seen + 50
                os.kill(pids[victim % len(pids)], signal.SIGKILL)
                for change in job.table("accounts").watch("a", after=str(seen)):
                    seen += 1
                    assert (int(change.id), change.before) == (seen, balance)
                    balance = change.after
                    if not seen % 2:
                        ahead.release()
                    if seen > goal and len(bank.workers()) == 3:
                        break
    finally:
        over.set()
        ahead.release()
        writer.join()


def test_and_from_the_last_epoch_too(bank: Bank) -> None:
    with bank.client() as job:
        time = int(bank.post("+k3")["time"])

        def committed() -> bool:
            try:
                return job.read(("accounts", "k"), at="committed", at_least=time).states == (3,)
            except Retryable:
                return False

        eventually(committed, "an epoch has it")
        found = dict(job.table("accounts").rows(at="committed"))
        assert found == {name: state for name, state in job.table("accounts").rows() if name in found}


def test_status_says_how_many_were_decided_and_aborted(bank: Bank) -> None:
    bank.post("+s5", "s x 1", "s x 9")

    def told() -> bool:
        workers = bank.scratch.status()["workers"]
        return all(
            sum(worker[name] for worker in workers) > 0 for name in ("transactions", "decisions", "aborted")
        )

    eventually(told, "the coordinator has heard of them")
    assert re.search(
        r"transactions on \S+: [\d,]+, [\d.]+% aborted, decided [\d.]+ times each, now when",
        bank.scratch.type("status", "job.yaml").text,
    )


def test_the_command_asks_the_job_that_runs(bank: Bank) -> None:
    bank.post("+m3")
    said = bank.scratch.type("query", "job.yaml", "accounts['m']", "sent[('nobody', 1)]", "--json")
    told = json.loads(said.text)
    assert (told["at"], told["rows"]) == (
        "strict",
        [{"row": "accounts['m']", "state": 3}, {"row": "sent[('nobody', 1)]"}],
    )


def test_no_sum_of_a_strict_answer_is_torn_or_old_while_workers_die(scratch: Scratch) -> None:
    bank, rng, over = Bank(scratch), Random(4), threading.Event()

    def transfers() -> None:
        while not over.is_set():
            bank.post(*(f"{rng.choice(NAMES)} {rng.choice(NAMES)} {rng.randrange(40)}" for _ in range(10)))

    writer = threading.Thread(target=transfers)
    writer.start()
    try:
        with fs.connect(bank.url, token=TOKEN) as job:
            accounts = job.table("accounts")
            for victim in range(4):
                asked = 0
                pids = bank.workers()
                os.kill(pids[victim % len(pids)], signal.SIGKILL)
                while asked < 50 or len(bank.workers()) < 3:
                    assert sum(accounts.get_many(NAMES).values()) == 100 * len(NAMES)
                    # a page that was begun before a recovery is no half of one
                    assert sum(balance for _, balance in accounts.scan(limit=100).rows) == 100 * len(NAMES)
                    asked += 1
    finally:
        over.set()
        writer.join()


def test_who_never_reads_an_answer_holds_nobody_up(bank: Bank) -> None:
    head = f"GET /v1/jobs/job/tables/accounts?limit=100 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", bank.port)) as silent, bank.client() as job:
        silent.settimeout(0.5)
        with suppress(TimeoutError):
            while True:
                silent.sendall(head.encode() * 1000)
        for balance in range(1, 20):
            time = int(bank.post(f"+n{balance}")["time"])
            assert job.table("accounts").get("n", at="stale", at_least=time) == balance
        assert job.table("accounts").get("n") == 19


def test_only_what_the_manifest_lists_may_be_asked_for(scratch: Scratch) -> None:
    bank = Bank(scratch, ", tables: [sent]")
    assert bank.get("/tables/accounts/a") == (
        403,
        {"error": "'accounts' may not be asked for here: spec.queries.tables has sent"},
    )
    assert bank.get("/tables/sent/a")[0] == 404


def test_a_job_that_is_down_says_so_and_its_epochs_can_be_asked(scratch: Scratch) -> None:
    bank = Bank(scratch)
    eventually(lambda: scratch.status()["epoch"], "an epoch is committed")
    for process in scratch._begun:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    with fs.connect(bank.url, token=TOKEN, timeout=0.5) as job, pytest.raises(Retryable, match="no answer"):
        job.table("accounts").get("a")
    said = scratch.type("query", "job.yaml", "accounts['a']", "--at", "committed")
    assert (said.code, "accounts['a'] = 100" in said.text) == (0, True), said.text


def test_where_input_is_not_journalled_no_answer_is_strict(scratch: Scratch) -> None:
    scratch.write("in.txt", "a\nb\n")
    port = free_port()
    scratch.job(
        'import flamestream as fs\ngraph = fs.Graph("g")\nmore = graph.source("more")\n'
        'graph.source("in").merge(more).reduce(name="seen", key=fs.item, combine=fs.count()).sink("out")\n',
        "sources:",
        "  in: {files: {path: in.txt, records: lines}}",
        f'  more: {{http: {{listen: "127.0.0.1:{free_port()}", keys: keys}}}}',
        "journal: {folder: journal}",
        "sinks: {out: {files: {path: out}}}",
        f'queries: {{listen: "127.0.0.1:{port}"}}',
        "workers: {replicas: 1}",
        "checkpoint: {interval: 200ms, store: snapshots}",
    )
    scratch.begin("run", "job.yaml", "--no-spark")
    eventually(lambda: scratch.status()["epoch"], "an epoch is committed", within=60)
    with fs.connect(f"http://127.0.0.1:{port}/v1/jobs/job") as job:
        with pytest.raises(UserError, match="source 'in' is not journalled"):
            job.table("seen").get("a")
        assert job.table("seen").get("a", at="stale") == 1


def test_a_port_with_a_certificate_is_asked_by_whoever_trusts_it(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "job")
    authority, other = Authority(tmp_path / "authority"), Authority(tmp_path / "other")
    shutil.copytree(authority.server(), scratch.path / "cert")
    (tmp_path / "ca.pem").write_text(authority.text)
    (tmp_path / "other.pem").write_text(other.text)
    bank = Bank(scratch, ", tls: {certFile: cert/tls.crt, keyFile: cert/tls.key}")
    url = bank.url.replace("http:", "https:")
    try:
        assert scratch.type("query", "job.yaml", "accounts['a']").text.startswith("accounts['a'] = 100\n")
        with fs.connect(url, token=TOKEN, ca_file=tmp_path / "ca.pem") as trusting:
            assert trusting.table("accounts").get("a") == 100
            shutil.copytree(
                authority.server(days=4), scratch.path / "cert", dirs_exist_ok=True
            )  # it is renewed
            assert trusting.table("accounts").get("a") == 100
        with fs.connect(url, token=TOKEN, ca_file=tmp_path / "ca.pem") as trusting:
            assert trusting.table("accounts").get("a") == 100
        for wrong in (tmp_path / "other.pem", None):
            with (
                fs.connect(url, token=TOKEN, ca_file=wrong) as client,
                pytest.raises(UserError, match="not trusted"),
            ):
                client.table("accounts").get("a")
        with fs.connect(bank.url, token=TOKEN, timeout=1) as plain, pytest.raises(Retryable):
            plain.table("accounts").get("a")
    finally:
        scratch.close()
