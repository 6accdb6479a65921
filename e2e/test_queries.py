"""A bank of a cluster is asked by `kubectl flamestream query`, and by a pod through the job's Service, while transfers
run and workers are killed: no strict sum over all accounts is torn or old."""

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import fresh
from e2e.support import faults
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.job import ROOT, restricted_pod
from e2e.support.kube import Kube, Object, until

ACCOUNTS, OPENING = 8, 100
ROWS = [f"accounts[{number}]" for number in range(ACCOUNTS)]
LEDGER = f"""
import flamestream as fs

graph = fs.Graph("bank")
accounts = graph.table("accounts", initial=lambda: {OPENING}, check=lambda key, balance: balance >= 0)


def transfer(state, number):
    source, target = number % {ACCOUNTS}, (number // {ACCOUNTS}) % {ACCOUNTS}
    state[accounts, source] -= number % 30
    state[accounts, target] += number % 30
    return number


moved = graph.source("docs").map(lambda document: int(document.text)).transact(transfer)
moved.committed.sink("moved", key=lambda number: number % {ACCOUNTS})
moved.aborted.map(lambda aborted: aborted.transaction).sink("refused", key=lambda number: number % {ACCOUNTS})
accounts.keep_changes(2_000)
"""
_ASK = """
import json, pathlib, sys, urllib.error, urllib.request
url, body = sys.argv[1], sys.argv[2].encode()
token = pathlib.Path("/token/token").read_text() if sys.argv[3] == "with" else "a guess"
request = urllib.request.Request(url, body, {"Authorization": f"Bearer {token}"})
try:
    with urllib.request.urlopen(request, timeout=10) as answer:
        print(json.dumps([answer.status, json.load(answer)]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, json.load(error)]))
except OSError as error:
    print(json.dumps([0, str(error)]))
"""


@pytest.fixture(scope="module")
def bank(installation: Installation, kube: Kube) -> Iterator[FolderJob]:
    made = FolderJob(kube, installation, fresh(), form="{number}")
    made.runs("bank", LEDGER, "moved", "refused")
    made.extra["queries"] = {"listen": "0.0.0.0:7070"}
    made.start(per_second=50)
    made.wait_status("epoch")
    yield made
    made.delete()


def asked(bank: FolderJob, *words: str) -> Any:
    """What the command says of all accounts."""
    return json.loads(bank.typed("query", bank.name, *ROWS, "--json", *words))


def paged(bank: FolderJob, *words: str) -> dict[int, int]:
    """Every account, a page of three behind the other; one that is still as it was opened may have no row."""
    found, cursor = dict[int, int](), list[str]()
    while True:
        page = json.loads(
            bank.typed("query", bank.name, "accounts", "--limit", "3", "--json", *cursor, *words)
        )
        assert len(page["rows"]) <= 3
        found |= {row["key"]: row["state"] for row in page["rows"]}
        if not page.get("cursor"):
            return found
        cursor = ["--cursor", page["cursor"]]


def money(answer: Any) -> int:
    """The sum over all accounts: one that nobody has written has what it was opened with."""
    return sum(row.get("state", OPENING) for row in answer["rows"])


def led_to(bank: FolderJob) -> set[str]:
    """The pods that clients are led to."""
    return {pod["metadata"]["name"] for pod in bank.pods("worker") if is_answering(pod)}


def is_answering(pod: Object) -> bool:
    return bool(pod["metadata"]["labels"].get("flamestream.dev/answers") == "true")


def wait_led_elsewhere(bank: FolderJob, before: set[str]) -> None:
    """Until clients are led to all workers that take part, which are others than before."""
    until(
        "clients are led to the standby",
        lambda: led_to(bank) != before and len(led_to(bank)) == bank.replicas,
        60,
    )


def test_no_strict_sum_is_torn_or_old_while_workers_are_killed(bank: FolderJob, report: Any) -> None:
    time = answers = 0
    for _ in range(3):
        before = led_to(bank)
        assert len(before) == bank.replicas, "the standby does not answer"
        faults.signal_process(bank.kube, sorted(before)[0], "worker")
        for _ in range(5):
            answer = asked(bank)
            assert (answer["at"], money(answer)) == ("strict", ACCOUNTS * OPENING), answer
            assert answer["time"] > time, "transfers go on, and no answer is older than one before"
            time, answers = answer["time"], answers + 1
        bank.wait_ready(180)
        wait_led_elsewhere(bank, before)
    report("queries: workers killed", kills=3, answers=answers)


def test_a_watch_tells_each_change_once_while_workers_are_killed(bank: FolderJob, report: Any) -> None:
    told = list[Any]()

    def goes_on() -> None:
        seen = len(told)
        until("the watch tells more", lambda: len(told) > seen + 10, 120)

    with bank.begun("watch", bank.name, "accounts[3]", "--after", "0", "--json") as watching:
        reader = threading.Thread(target=lambda: told.extend(map(json.loads, watching.stdout or ())))
        reader.start()
        try:
            for turn in range(4):  # whoever is asked, it is that one's turn
                goes_on()
                before = led_to(bank)
                faults.signal_process(bank.kube, sorted(before)[turn % 2], "worker")
                bank.wait_ready(180)
                wait_led_elsewhere(bank, before)
            goes_on()
            assert watching.poll() is None, "it has never ended"
        finally:
            watching.terminate()
            reader.join()
    balance = OPENING
    for place, change in enumerate(told, 1):
        assert (change["id"], change["before"]) == (str(place), balance), "each follows the one before"
        balance = change["after"]
    report("a watch: workers killed", kills=4, changes=len(told))


def test_other_words_of_the_command(bank: FolderJob) -> None:
    time = asked(bank)["time"]
    stale = asked(bank, "--at", "stale", "--at-least", str(time))
    assert stale["time"] >= time and money(stale) == ACCOUNTS * OPENING
    assert "accounts[3] = " in bank.typed("query", bank.name, "accounts[3]")
    committed = asked(bank, "--at", "committed")
    assert money(committed) == ACCOUNTS * OPENING and committed["time"] > 0
    assert sorted(paged(bank)) == sorted(paged(bank, "--at", "committed")) == list(range(ACCOUNTS))
    bank.typed("query", bank.name, "account[3]", code=2)
    bank.typed("query", bank.name, "account[3]", "--at", "committed", code=2)
    assert f"queries    {bank.name}-queries:7070" in bank.typed("status", bank.name)


def test_the_rights_that_the_docs_name_are_enough_and_without_them_nobody_asks(
    bank: FolderJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = f"{bank.name}-user"
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    for each in config["users"]:
        each["user"]["as"] = user
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    bank.typed("query", bank.name, *ROWS, code=1)
    told = (ROOT / "docs" / "how-to" / "queries.md").read_text()
    (text,) = (block for block in re.findall(r"```yaml\n(.*?)```", told, re.DOTALL) if "kind: Role" in block)
    role = yaml.safe_load(re.sub(r"\bbank\b", bank.name, text))
    role["metadata"]["namespace"] = bank.kube.namespace
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]}
    binding = {**role, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    bank.kube.apply(role, {name: value for name, value in binding.items() if name != "rules"})
    assert money(asked(bank)) == ACCOUNTS * OPENING
    bank.kube.delete("RoleBinding", role["metadata"]["name"])


def test_a_pod_asks_through_the_service_with_the_token_and_not_without(bank: FolderJob) -> None:
    client = f"{bank.name}-client"
    secret = {"secret": {"secretName": f"{bank.name}-queries"}}
    pod = restricted_pod(client, "sleep", "1000", mounts={"token": (secret, "/token")})
    bank.kube.apply(pod)
    bank.kube.wait_condition("Pod", client, "Ready", 60)
    place = f"http://{bank.name}-queries:7070/v1/jobs/{bank.kube.namespace}.{bank.name}/query"
    body = json.dumps({"read": [["accounts", number] for number in range(ACCOUNTS)]})

    def ask(token: str) -> tuple[int, Any]:
        status, told = json.loads(bank.kube.execute(client, "python3", "-c", _ASK, place, body, token))
        return status, told

    for _ in range(10):  # a Service spreads its clients: none of them meets a standby
        status, told = ask("with")
        assert (status, money(told)) == (200, ACCOUNTS * OPENING)
    assert ask("without")[0] == 401
    bank.kube.delete("Pod", client, grace=0)


def test_the_service_goes_with_the_port(bank: FolderJob) -> None:
    name = f"{bank.name}-queries"
    secret = bank.kube.get("Secret", name)
    bank.apply_and_wait(queries=None)
    bank.kube.watch("Service", lambda there: name not in there, 60)
    assert "has no port for queries" not in bank.typed("query", bank.name, *ROWS), "its last epoch is read"
    bank.apply_and_wait()
    bank.kube.wait("Service", name, lambda service: service, 60)
    assert money(asked(bank)) == ACCOUNTS * OPENING
    assert (bank.kube.get("Secret", name) or {})["data"] == (secret or {})["data"], "clients have it"
