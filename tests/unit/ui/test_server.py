"""The server of the page, as browsers and worse ask it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer

import flamestream as fs
from flamestream.model.errors import ManifestError, Retryable, UserError
from flamestream.node.job_state import described
from flamestream.node.samples import Sample
from flamestream.node.samples_file import SamplesFile
from flamestream.node.verdicts import leave
from flamestream.ui import server, viewers
from flamestream.ui.commands import Commands
from flamestream.ui.gate import LOCAL, Gate
from flamestream.ui.local_jobs import LocalJobs
from flamestream.ui.source import Ran
from support.runs.shown_job import BEGAN, LOG_LINES, SECOND, ShownJob, status

TOKEN = "the-token"
LET_IN = {"Authorization": f"Bearer {TOKEN}"}
Client = TestClient[Any, Any]
EVIL = "<img src=x onerror=alert(1)>"


@asynccontextmanager
async def served(root: Path, *, actions: bool = False) -> AsyncIterator[Client]:
    app = server.application(
        LocalJobs(root, actions=actions), Gate(TOKEN, LOCAL, "flamestream-test"), version="1"
    )
    async with TestClient(TestServer(app)) as client:
        yield client


def asked(root: Path, steps: Callable[[Client], Awaitable[None]], *, actions: bool = False) -> None:
    async def run() -> None:
        async with served(root, actions=actions) as client:
            await steps(client)

    asyncio.run(run())


@pytest.fixture
def job(tmp_path: Path) -> ShownJob:
    made = ShownJob(tmp_path)
    made.tells(status())
    made.logs(*LOG_LINES)
    return made


async def events(client: Client, path: str, count: int) -> list[tuple[str, Any]]:
    """The first events."""
    found: list[tuple[str, Any]] = []
    async with client.get(path, headers=LET_IN) as answer:
        assert answer.status == 200, await answer.text()
        name = ""
        async for line in answer.content:
            word, _, value = line.decode().rstrip("\n").partition(": ")
            if word == "event":
                name = value
            elif word == "data":
                found.append((name, json.loads(value)))
                if len(found) == count:
                    break
    return found


# --- what it says -------------------------------------------------------------------------------------------


def test_a_job_is_what_status_prints(tmp_path: Path, job: ShownJob) -> None:
    async def steps(client: Client) -> None:
        answer = await client.get("/api/v1/jobs/sales", headers=LET_IN)
        assert await answer.json() == described(job.folder, job.folder.info(), job.folder.status())

    asked(tmp_path, steps)


def test_the_list_has_a_row_a_job(tmp_path: Path, job: ShownJob) -> None:
    ShownJob(tmp_path, "idle")
    job.runs()

    async def steps(client: Client) -> None:
        rows = (await (await client.get("/api/v1/jobs", headers=LET_IN)).json())["jobs"]
        assert [(row["job"], row["phase"], row["running"]) for row in rows] == [
            ("idle", "never began", False),
            ("sales", "running", True),
        ]
        assert (rows[1]["p99_ms"], rows[1]["recovery"], rows[1]["epoch"]) == (9.0, "lost w0.0", 12)

    asked(tmp_path, steps)


def test_two_jobs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        made = ShownJob(tmp_path, folder)
        made.folder.write("run.json", msgspec.structs.replace(made.info, job="sales"))

    async def steps(client: Client) -> None:
        rows = (await (await client.get("/api/v1/jobs", headers=LET_IN)).json())["jobs"]
        assert [row["job"] for row in rows] == ["b", "sales"]

    asked(tmp_path, steps)


def test_figures_are_marks_and_the_hour_before_also_of_a_server_that_has_just_begun(
    tmp_path: Path, job: ShownJob
) -> None:
    coordinator = SamplesFile(job.folder.path)

    def sampled(second: int) -> None:
        coordinator.add(Sample(at=BEGAN + second * SECOND, items_in=20.0 * second))

    async def figures(client: Client) -> Any:
        found = await (await client.get("/api/v1/jobs/sales/figures", headers=LET_IN)).json()
        said = [dict(zip(found["columns"], sample, strict=True)) for sample in found["samples"]]
        return [each["items_in"] for each in said], [mark["kind"] for mark in found["marks"]]

    async def steps(client: Client) -> None:
        assert await figures(client) == ([0, 20], ["coordinator", "start", "lost", "recovery"])
        sampled(2)
        assert (await figures(client))[0] == [0, 20, 40]

    async def again(client: Client) -> None:
        assert (await figures(client))[0] == [0, 20, 40]

    sampled(0)
    sampled(1)
    asked(tmp_path, steps)
    asked(tmp_path, again)


def test_a_client_sees_the_status_and_the_hour_by_the_page_s_url(tmp_path: Path, job: ShownJob) -> None:
    SamplesFile(job.folder.path).add(Sample(at=BEGAN, p50_ms=1.5, p99_ms=2.5))
    ShownJob(tmp_path, "idle")

    async def steps(client: Client) -> None:
        def ask(name: str, token: str | None = TOKEN) -> Any:
            return fs.connect(str(client.make_url(f"/api/v1/jobs/{name}")), token=token)

        def look() -> None:
            with ask("sales") as sales:
                shown = sales.status()
                assert shown.status == job.folder.status() and shown.samples == [
                    Sample(at=BEGAN, p50_ms=1.5, p99_ms=2.5)
                ]
                assert "<svg" in sales._repr_html_() and len(sales.latency()) == 1
                with pytest.raises(ManifestError, match="connect by the manifest"):
                    sales.table("totals").get("ann")
            for name, token, error, words in (
                ("nobody", TOKEN, ManifestError, "there is no job 'nobody'"),
                ("sales", "made-up", UserError, "answers 401"),
                ("idle", TOKEN, Retryable, "has not said anything"),
            ):
                with ask(name, token) as asked_, pytest.raises(error, match=words):
                    asked_.status()

        await asyncio.to_thread(look)

    asked(tmp_path, steps)


def test_a_verdict_that_a_command_has_left_is_shown_and_told(tmp_path: Path, job: ShownJob) -> None:
    found = {"kept": True, "verdict": {"delivered": 3, "lost": 0, "doubled": 0, "reordered": 0}}

    async def steps(client: Client) -> None:
        assert (await (await client.get("/api/v1/jobs/sales/audit", headers=LET_IN)).json())[
            "state"
        ] == "never"
        watching = asyncio.create_task(events(client, "/api/v1/events?job=sales", 4))
        await asyncio.sleep(0.3)
        leave(job.folder, "audit", 1, 0, found)
        told = await asyncio.wait_for(watching, 30)
        (mark,) = [mark for mark in told[-1][1]["marks"] if mark["kind"] == "audit"]
        assert mark["text"].startswith("clean: 3 results")
        ran = await (await client.get("/api/v1/jobs/sales/audit", headers=LET_IN)).json()
        assert (ran["state"], ran["code"], ran["answer"]) == ("done", 0, found)
        (row,) = (await (await client.get("/api/v1/jobs", headers=LET_IN)).json())["jobs"]
        assert row["audit"] == "clean"
        (job.folder.path / "audit.json").write_text('{"began": "of another release"}')
        while (await (await client.get("/api/v1/jobs/sales/audit", headers=LET_IN)).json())[
            "state"
        ] == "done":
            await asyncio.sleep(0.05)

    asked(tmp_path, steps)


def test_a_verdict_in_the_place_of_another_is_told(tmp_path: Path, job: ShownJob) -> None:
    found = {"kept": True, "verdict": {"delivered": 3, "lost": 0, "doubled": 0, "reordered": 0}}

    async def steps(client: Client) -> None:
        leave(job.folder, "audit", 1, 0, found)
        while (await (await client.get("/api/v1/jobs/sales/audit", headers=LET_IN)).json())[
            "state"
        ] != "done":
            await asyncio.sleep(0.05)
        watching = asyncio.create_task(events(client, "/api/v1/events?job=sales", 4))
        await asyncio.sleep(0.3)
        leave(job.folder, "audit", 1, 3, found | {"kept": False})
        told = await asyncio.wait_for(watching, 30)
        texts = [mark["text"] for mark in told[-1][1]["marks"] if mark["kind"] == "audit"]
        assert texts == ["differs: 3 results, 0 lost, 0 doubled, 0 reordered"]

    asked(tmp_path, steps)


def test_an_item_of_this_machine_is_answered_at_once_and_not_started(tmp_path: Path, job: ShownJob) -> None:
    async def steps(client: Client) -> None:
        answer = await client.post("/api/v1/jobs/sales/item?text=north", headers=LET_IN)
        assert answer.status == 405
        assert "GET" in (await answer.json())["error"]["message"]

    asked(tmp_path, steps)


def test_a_graph_is_asked_for_once_an_application(
    tmp_path: Path, job: ShownJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[Any] = []

    async def answer(_: Commands, arguments: list[str]) -> Ran:
        asked_for.append(arguments)
        return Ran(state="done", answer=len(asked_for))

    monkeypatch.setattr(Commands, "answer", answer)

    async def steps(client: Client) -> None:
        async def graph() -> Any:
            return (await (await client.get("/api/v1/jobs/sales/graph", headers=LET_IN)).json())["answer"]

        assert [await graph(), await graph()] == [1, 1]
        job.tells(status(BEGAN + SECOND, code="another"))
        while await graph() == 1:
            await asyncio.sleep(0.02)
        assert asked_for == [["plan", "/nowhere/job.yaml", "--json"]] * 2

    asked(tmp_path, steps)


@pytest.mark.parametrize(
    ("query", "more"), [("", []), ("?definitions=yes", ["--definitions"]), ("?definitions=--x", [])]
)
def test_an_audit_is_by_definitions_too_if_it_is_asked_for(
    tmp_path: Path, job: ShownJob, monkeypatch: pytest.MonkeyPatch, query: str, more: list[str]
) -> None:
    started: list[Any] = []

    def start(_: Commands, name: tuple[str, ...], arguments: list[str], *, nice: int) -> Ran:
        started.append(arguments)
        return Ran(state="running")

    monkeypatch.setattr(Commands, "start", start)

    async def steps(client: Client) -> None:
        assert (await client.post(f"/api/v1/jobs/sales/audit{query}", headers=LET_IN)).status == 202
        assert started == [["audit", str(job.folder.path), *more, "--json"]]

    asked(tmp_path, steps)


def test_a_text_that_is_traced_is_no_option(tmp_path: Path, job: ShownJob) -> None:
    async def steps(client: Client) -> None:
        answer = await client.get("/api/v1/jobs/sales/item?text=--limit", headers=LET_IN)
        assert (ran := await answer.json())["code"] == 2
        assert "/nowhere/job.yaml: cannot read the manifest" in ran["answer"]["error"]["message"]

    asked(tmp_path, steps)


def test_a_viewer_is_told_what_changes(tmp_path: Path, job: ShownJob) -> None:
    async def steps(client: Client) -> None:
        watching = asyncio.create_task(events(client, "/api/v1/events?job=sales", 3))
        first: list[tuple[str, Any]] = []
        for second in range(1, 2000):
            job.tells(status(BEGAN + second * SECOND, epoch=100 + second))
            await asyncio.sleep(0.02)
            if watching.done():
                first = watching.result()
                break
        assert [name for name, _ in first] == ["status", "figures", "status"]
        assert first[0][1]["status"]["epoch"] < first[2][1]["status"]["epoch"]

    asked(tmp_path, steps)


def test_the_list_tells_what_is_new_and_what_is_gone(tmp_path: Path, job: ShownJob) -> None:
    async def steps(client: Client) -> None:
        watching = asyncio.create_task(events(client, "/api/v1/events", 2))
        await asyncio.sleep(0.3)
        (job.folder.path / "run.json").unlink()
        (_, first), (_, second) = await asyncio.wait_for(watching, 30)
        assert [row["job"] for row in first["rows"]] == ["sales"]
        assert (second["rows"], second["gone"]) == ([], ["sales"])

    asked(tmp_path, steps)


def test_a_name_and_a_cause_are_only_texts(tmp_path: Path) -> None:
    job = ShownJob(tmp_path, EVIL.replace("/", ""))
    job.tells(status(problems=[EVIL], message=EVIL))

    async def steps(client: Client) -> None:
        answer = await client.get("/api/v1/jobs", headers=LET_IN)
        assert answer.content_type == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert (await answer.json())["jobs"][0]["job"] == EVIL

    asked(tmp_path, steps)


def test_a_status_of_another_release_is_named(tmp_path: Path, job: ShownJob) -> None:
    (job.folder.status_file).write_text('{"phase": 3}')

    async def steps(client: Client) -> None:
        answer = await client.get("/api/v1/jobs/sales", headers=LET_IN)
        assert answer.status == 500 and "is not a status file" in await answer.text()
        rows = (await (await client.get("/api/v1/jobs", headers=LET_IN)).json())["jobs"]
        assert rows[0]["phase"] == "damaged"

    asked(tmp_path, steps)


# --- who may ask ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 401),
        ({"Authorization": "Bearer another"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({**LET_IN, "Host": "evil.example"}, 421),
        ({**LET_IN, "Host": "127.0.0.1.evil.example"}, 421),
        ({**LET_IN, "Host": "["}, 421),
        (LET_IN, 200),
        ({**LET_IN, "Host": "localhost:1"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/sales"])
def test_who_has_the_token_and_asks_this_server_is_answered(
    tmp_path: Path, job: ShownJob, path: str, headers: dict[str, str], code: int
) -> None:
    async def steps(client: Client) -> None:
        assert (await client.get(path, headers=headers)).status == code

    asked(tmp_path, steps)


def test_a_browser_brings_the_token_once(tmp_path: Path, job: ShownJob) -> None:
    async def steps(client: Client) -> None:
        assert (await client.post("/api/v1/login", data="another")).status == 401
        answer = await client.post("/api/v1/login", data=TOKEN)
        assert (answer.status, answer.cookies["flamestream-test"]["samesite"]) == (200, "Strict")
        assert answer.cookies["flamestream-test"]["httponly"]
        async with ClientSession(cookies={"flamestream-test": TOKEN}) as browser:
            assert (await browser.get(client.make_url("/api/v1/jobs"))).status == 200

    asked(tmp_path, steps)


def test_another_site_starts_nothing(tmp_path: Path, job: ShownJob) -> None:
    async def steps(client: Client) -> None:
        theirs = {**LET_IN, "Origin": "https://evil.example"}
        assert (await client.post("/api/v1/jobs/sales/drill?kill=worker", headers=theirs)).status == 403
        ours = {**LET_IN, "Origin": str(client.make_url("/")).rstrip("/")}
        assert (await client.post("/api/v1/jobs/sales/nothing", headers=ours)).status == 404

    asked(tmp_path, steps, actions=True)


def test_without_actions_nobody_is_killed(tmp_path: Path, job: ShownJob) -> None:
    async def steps(client: Client) -> None:
        answer = await client.post("/api/v1/jobs/sales/drill?kill=worker", headers=LET_IN)
        assert answer.status == 403 and "--actions" in await answer.text()

    asked(tmp_path, steps)


@pytest.mark.parametrize("word", ["", "--audit", "-x"])
def test_what_is_asked_for_is_no_option(tmp_path: Path, job: ShownJob, word: str) -> None:
    async def steps(client: Client) -> None:
        answer = await client.post(f"/api/v1/jobs/sales/drill?kill={word}", headers=LET_IN)
        assert answer.status == 400

    asked(tmp_path, steps, actions=True)


# --- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/assets/../index.html", "/assets/..%2f..%2fserver.py", "/assets/%2e%2e/server.py", "/assets//etc/passwd",
     "/assets/page.js%00", "/static/page.js", "/api/v1/jobs/..%2f..%2fetc", "/assets/" + "a" * 3000],
)  # fmt: skip
def test_a_path_leads_nowhere_else(
    tmp_path: Path, job: ShownJob, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(server, "STATIC", _page(tmp_path / "page"))

    async def steps(client: Client) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        assert answer.split()[1] in (b"401", b"404", b"400"), answer

    asked(tmp_path, steps)


def test_the_page_is_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STATIC", _page(tmp_path / "page"))

    async def steps(client: Client) -> None:
        for path, kind in (("/", "text/html"), ("/assets/page.js", "text/javascript")):
            answer = await client.get(path)
            assert (answer.status, answer.content_type) == (200, kind)
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy and "http" not in policy
        assert (await client.get("/", headers={"Host": "evil.example"})).status == 421

    asked(tmp_path, steps)


def _page(folder: Path) -> Path:
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "assets" / "page.js").write_text("1")
    return folder


# --- too much -------------------------------------------------------------------------------------------------


def test_of_too_many_viewers_the_last_are_refused(
    tmp_path: Path, job: ShownJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewers, "MOST", 3)

    async def steps(client: Client) -> None:
        inside = [await client.get("/api/v1/events", headers=LET_IN) for _ in range(3)]
        assert (await client.get("/api/v1/events", headers=LET_IN)).status == 503
        inside[0].close()
        while (answer := await client.get("/api/v1/events", headers=LET_IN)).status == 503:
            await asyncio.sleep(0.05)
            job.tells(status(BEGAN + SECOND, epoch=int(asyncio.get_running_loop().time() * 1000)))
        answer.close()

    asked(tmp_path, steps)


def test_a_viewer_that_reads_nothing_is_let_go(
    tmp_path: Path, job: ShownJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TAKES_NOTHING", 0.2)

    async def steps(client: Client) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port, limit=1)
        request = f"GET /api/v1/events?job=sales HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(request.encode())
        assert await reader.read(1)
        long = "x" * 1_000_000
        second = 0
        while not reader.at_eof() and reader.exception() is None:
            second += 1
            job.tells(status(BEGAN + second * SECOND, message=long))
            await asyncio.sleep(0.05)
            if second > 40 and await _gone(reader):
                break
            assert second < 600, "it is written to for ever"
        writer.close()

    asked(tmp_path, steps)


async def _gone(reader: asyncio.StreamReader) -> bool:
    """Whether the other side has closed, behind what it had sent before."""
    try:
        while await asyncio.wait_for(reader.read(1 << 20), 0.01):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True
