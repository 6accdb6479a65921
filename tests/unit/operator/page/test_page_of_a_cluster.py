"""The page of a cluster, as browsers, proxies and worse ask an operator for it: each sees what RBAC lets them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from flamestream.job.drills.left_audit import ANNOTATION, LeftAudit, written_left
from flamestream.job.drills.status import AuditResult
from flamestream.node.samples import Sample
from flamestream.ui import listening, server, viewers
from flamestream.ui.marks import at_micros
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.objects.meta import Object
from flamestream_operator.page import serving, traced_items
from flamestream_operator.page.relay import Relay
from flamestream_operator.page.shown import micros
from support.operator.shown_cluster import ShownCluster, job, over, pod, record
from support.operator.users import Users, looks
from support.runs.shown_job import BEGAN, LOG_LINES, SECOND, status

Session = aiohttp.ClientSession
EVIL = "<img src=x onerror=alert(1)>"


def as_user(name: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}", **more}


ANN = as_user("ann")


def users(*more: tuple[str, str, str, str]) -> Users:
    """`ann` may look at namespace `shop` and drill there, `root` may look anywhere."""
    return Users(
        *looks("ann", "shop"), ("ann", "create", "flamestreamdrills", "shop"), *looks("root", "*"), *more
    )


def shown(users_: Users | None = None, **settings: Any) -> ShownCluster:
    made = ShownCluster(users_ or users(), **settings)
    made.runs(job("shop", "sales"), job("bank", "ledger"), told=status())
    made.cluster.put_pod(pod("shop", "sales-driver-a-1", "sales", "driver"))
    made.cluster.put_pod(pod("shop", "sales-a-1-exec-1", "sales", "worker"))
    return made


def asked(made: ShownCluster, steps: Callable[[Session], Awaitable[None]]) -> None:
    async def run() -> None:
        async with made.served(), Session(base_url=made.address) as session:
            await steps(session)

    asyncio.run(run())


async def code(
    session: Session, path: str, headers: dict[str, str] = ANN, method: str = "GET", **more: Any
) -> int:
    async with session.request(method, path, headers=headers, **more) as answer:
        await answer.read()
        return answer.status


async def found(session: Session, path: str, headers: dict[str, str] = ANN) -> Any:
    async with session.get(path, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


# --- who sees what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status_"),
    [
        ({}, 401),
        (as_user("made-up"), 401),
        ({"Authorization": "Basic ann"}, 401),
        (ANN, 200),
        (as_user("ann", Host="evil.example"), 421),
        (as_user("ann", Host="page.example.evil"), 421),
        (as_user("ann", Host="["), 421),
        (as_user("ann", Host=""), 421),
        (as_user("ann", Host="page.example:8443"), 200),
        (as_user("ann", Host="10.245.0.1:6443"), 200),
        (as_user("ann", Host="[::1]:7878"), 200),
    ],
)
def test_who_shows_a_token_of_the_cluster_at_a_name_of_the_page_is_answered(
    headers: dict[str, str], status_: int
) -> None:
    async def steps(session: Session) -> None:
        for path in ("/api/v1", "/api/v1/jobs", "/api/v1/jobs/shop.sales"):
            assert await code(session, path, headers) == status_

    asked(shown(), steps)


def test_the_list_has_the_jobs_of_namespaces_whose_jobs_one_may_list() -> None:
    async def steps(session: Session) -> None:
        async def seen(user: str) -> list[str]:
            return [row["job"] for row in (await found(session, "/api/v1/jobs", as_user(user)))["jobs"]]

        assert await seen("ann") == ["shop.sales"]
        assert await seen("root") == ["bank.ledger", "shop.sales"]
        assert await seen("nobody-s") == []

    asked(shown(), steps)


PATHS = ["", "/figures", "/logs", "/graph", "/snapshots", "/audit", "/drill"]


@pytest.mark.parametrize("path", PATHS)
def test_each_look_at_a_job_takes_a_right_in_its_namespace(path: str) -> None:
    async def steps(session: Session) -> None:
        assert await code(session, f"/api/v1/jobs/shop.sales{path}") in (200, 503)
        assert await code(session, f"/api/v1/jobs/bank.ledger{path}") == 403
        assert await code(session, f"/api/v1/jobs/bank.there-is-none{path}") == 403, (
            "names are not told either"
        )
        assert await code(session, f"/api/v1/jobs/shop.there-is-none{path}") == 404

    asked(shown(), steps)


@pytest.mark.parametrize(
    ("right", "path"),
    [
        (("ann", "get", "flamestreamjobs", "shop"), ""),
        (("ann", "get", "flamestreamjobs", "shop"), "/figures"),
        (("ann", "get", "flamestreamjobs", "shop"), "/graph"),
        (("ann", "get", "pods/log", "shop"), "/logs"),
        (("ann", "list", "flamestreamsnapshots", "shop"), "/snapshots"),
        (("ann", "list", "flamestreamdrills", "shop"), "/drill"),
        (("ann", "list", "flamestreamdrills", "shop"), "/audit"),
    ],
)
def test_without_that_right_it_is_refused(right: tuple[str, str, str, str], path: str) -> None:
    made = shown()
    made.users.rights.remove(right)

    async def steps(session: Session) -> None:
        assert await code(session, f"/api/v1/jobs/shop.sales{path}") == 403
        assert made.users.read == [], "nothing was read meanwhile"

    asked(made, steps)


def test_a_browser_brings_its_token_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = shown()

    async def steps(session: Session) -> None:
        assert await code(session, "/api/v1/login", {}, "POST", data="made-up") == 401
        theirs = {"Sec-Fetch-Site": "cross-site"}
        assert await code(session, "/api/v1/login", theirs, "POST", data="ann") == 403
        async with session.post("/api/v1/login", data=" ann\n") as answer:
            (cookie,) = answer.cookies.values()
            assert (cookie.key, cookie["samesite"], cookie["path"]) == (
                f"flamestream-{made.settings.port}", "Strict", "",
            )  # fmt: skip
            assert cookie["httponly"]
            shows = {"Cookie": f"{cookie.key}={cookie.value}"}
        assert await code(session, "/api/v1/jobs/shop.sales", shows) == 200
        assert await code(session, "/api/v1/jobs/bank.ledger", shows) == 403

    asked(made, steps)


def test_nobody_is_let_in_while_the_api_server_says_nothing() -> None:
    made = shown()
    made.users.problem = ApiProblem(0, "ConnectError", "away")

    async def steps(session: Session) -> None:
        assert await code(session, "/api/v1/jobs") == 503
        made.users.problem = None
        assert await code(session, "/api/v1/jobs") == 200

    asked(made, steps)


def test_an_answer_about_rights_is_kept_for_a_while() -> None:
    made = shown()

    async def steps(session: Session) -> None:
        for _ in range(5):
            assert await code(session, "/api/v1/jobs/shop.sales") == 200
        assert [each["kind"] for each in made.users.asked] == ["TokenReview", "SubjectAccessReview"]

    asked(made, steps)


def test_a_stream_ends_with_the_right_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flamestream_operator.kube.reviews.KEPT_FOR", 0.0)
    made = shown()

    async def steps(session: Session) -> None:
        async with session.get("/api/v1/events?job=shop.sales", headers=ANN) as answer:
            assert (await answer.content.readline()).startswith(b"event: ")
            made.users.rights.remove(("ann", "get", "flamestreamjobs", "shop"))
            async with asyncio.timeout(30):
                while await answer.content.readany():
                    pass
        assert await code(session, "/api/v1/events?job=shop.sales") == 403

    asked(made, steps)


# --- behind a proxy -----------------------------------------------------------------------------------------

PROXY = as_user("proxy")


@pytest.mark.parametrize(
    ("headers", "status_"),
    [
        ({"Impersonate-User": "ann"}, 200),
        ({"Impersonate-User": "carl", "Impersonate-Group": "sellers"}, 200),
        ({"Impersonate-User": "carl", "Impersonate-Group": "others,sellers"}, 403),
        ({"Impersonate-User": "carl"}, 403),
        ({"Impersonate-User": "root"}, 403),
        ({"Impersonate-Group": "sellers"}, 400),
        ({"Impersonate-User": "ann", "Impersonate-Group": "system:masters"}, 400),
        ({"Impersonate-User": "system:serviceaccount:a:b"}, 400),
        ({"Impersonate-User": "ann", "Impersonate-Extra-scopes": "all"}, 400),
        ({}, 403),
    ],
)
def test_a_proxy_speaks_for_whom_rbac_lets_it(headers: dict[str, str], status_: int) -> None:
    """Who looks then is that user, not the proxy."""
    known = users(
        ("proxy", "impersonate", "users", "ann"), ("proxy", "impersonate", "users", "carl"),
        ("proxy", "impersonate", "groups", "sellers"), *looks("sellers", "shop"), *looks("system:masters", "*"),
    )  # fmt: skip

    async def steps(session: Session) -> None:
        assert await code(session, "/api/v1/jobs/shop.sales", PROXY | headers) == status_
        assert await code(session, "/api/v1/jobs/shop.sales", ANN | {"Impersonate-User": "root"}) == 403

    asked(shown(known), steps)


# --- actions ------------------------------------------------------------------------------------------------

DRILL = "/api/v1/jobs/shop.sales/drill?kill=worker&after=1"


def test_a_drill_is_made_for_who_may_make_one_and_says_who_asked() -> None:
    made = shown(users(*looks("bob", "shop")))

    async def steps(session: Session) -> None:
        assert await code(session, DRILL, as_user("bob"), "POST") == 403
        assert made.users.made == []
        assert await code(session, DRILL, ANN, "POST") == 202
        (drill,) = made.users.made
        assert drill["metadata"]["annotations"] == {"flamestream.dev/asked-by": "ann"}
        assert (drill["metadata"]["namespace"], drill["spec"]) == (
            "shop",
            {"job": "sales", "fault": {"target": "worker"}, "times": 1, "after": "1s"},
        )
        assert (await found(session, "/api/v1/jobs/shop.sales/drill"))["state"] == "running"
        assert await code(session, DRILL, ANN, "POST") == 409
        assert made.cluster.drills.put(drill), "it is news when the watch brings it: or nobody takes it up"
        over = drill["metadata"] | {"resourceVersion": "9"}
        made.cluster.drills.put({**drill, "metadata": over, "status": {"phase": "Passed", "reason": "Clean"}})
        assert (await found(session, "/api/v1/jobs/shop.sales/drill"))["state"] == "done"

    asked(made, steps)


AUDIT = "/api/v1/jobs/shop.sales/audit"


def test_an_audit_is_a_drill_that_breaks_nothing() -> None:
    made = shown(users(*looks("bob", "shop")))

    async def steps(session: Session) -> None:
        assert (await found(session, AUDIT))["state"] == "never"
        assert await code(session, AUDIT, as_user("bob"), "POST") == 403
        assert made.users.made == []
        assert await code(session, AUDIT, ANN, "POST") == 202
        (drill,) = made.users.made
        assert drill["spec"] == {"job": "sales", "fault": {"target": "worker"}, "times": 0}
        assert drill["metadata"]["annotations"] == {"flamestream.dev/asked-by": "ann"}
        assert (await found(session, AUDIT))["state"] == "running"
        assert (await found(session, "/api/v1/jobs/shop.sales/drill"))["state"] == "never"
        assert await code(session, DRILL, ANN, "POST") == 409, "one at a time"

    asked(made, steps)


def test_an_audit_by_definitions_is_asked_for_and_told_as_that_of_one_machine() -> None:
    made = shown()
    six = {
        "definition": 6,
        "name": "exactly-once",
        "printed": "holds",
        "strict": "broken",
        "reason": "1 lost",
    }
    five = {"definition": 5, "name": "consistent output", "printed": "holds", "strict": "", "reason": ""}
    verdict = {"clean": False, "lost": 1, "definitions": [five, six]}
    made.cluster.drills.put(over("broke", "10:00", 0, phase="Failed", reason="NotClean", audit=verdict))

    async def steps(session: Session) -> None:
        assert (await found(session, AUDIT))["answer"]["definitions"] == [five | {"strict": None}, six]
        assert await code(session, f"{AUDIT}?definitions=yes", ANN, "POST") == 202
        (drill,) = made.users.made
        assert (drill["spec"]["times"], drill["spec"]["definitions"]) == (0, True)

    asked(made, steps)


def test_an_audits_verdict_is_whole_with_its_first_difference_whoever_asked_for_it() -> None:
    made = shown()
    differs = "sink 'out', slot 3, meta 00ff: a replay gave other bytes; expected 5, delivered 6"
    verdict = {
        "clean": False, "records": 90, "delivered": 89, "lost": 1, "doubled": 2, "reordered": 3, "notDue": 4,
        "epoch": 7, "bounds": "up to epoch 7", "input": "the sources, read again", "firstDifference": differs,
    }  # fmt: skip
    made.cluster.drills.put(
        over("broke", "10:00", 3, phase="Failed", reason="NotClean", done=3, audit=verdict)
    )
    made.cluster.drills.put(over("gap-only", "11:00", 1, phase="Inconclusive", reason="NotAudited"))

    async def steps(session: Session) -> None:
        ran = await found(session, AUDIT)
        report = ran["answer"]
        assert (ran["state"], ran["code"], ran["ended"] - ran["began"]) == ("done", 3, 8_000_000)
        assert (report["records"], report["clean"], report["bounds"]["epoch"]) == (90, False, 7)
        assert report["first_difference"] == differs
        counts = {"delivered": 89, "lost": 1, "doubled": 2, "reordered": 3, "foreign": 0, "misplaced": 0}
        assert report["verdict"] == counts | {"not_due": 4}
        assert report["said"] == [
            "By drill broke, after 3 faults.",
            "the sources, read again",
            "up to epoch 7",
        ]
        assert (await found(session, "/api/v1/jobs/shop.sales/drill"))["answer"]["reason"] == "NotAudited"

    asked(made, steps)


def typed(ended: int, **verdict: Any) -> Object:
    """The job behind an audit at a terminal."""
    left = LeftAudit(began=ended - 5, ended=ended, audit=AuditResult(**verdict))
    made = job("shop", "sales")
    made["metadata"] |= {"annotations": {ANNOTATION: written_left(left)}, "resourceVersion": "2"}
    return made


@pytest.mark.parametrize(("ended", "shown_is"), [(-1, "drill broke"), (1, "kubectl")])
def test_an_audit_that_was_made_at_a_terminal_is_shown_if_it_is_the_last(ended: int, shown_is: str) -> None:
    made = shown()
    verdict = {"clean": True, "records": 90, "delivered": 89}
    broke = over("broke", "10:00", 3, phase="Passed", reason="Clean", done=3, audit=verdict)
    made.cluster.drills.put(broke)
    at = micros(broke["status"]["finishedAt"]) + ended
    made.runs(typed(at, clean=False, records=91, lost=1), told=status())

    async def steps(session: Session) -> None:
        ran = await found(session, AUDIT)
        assert shown_is in ran["answer"]["said"][0]
        (row,) = (await found(session, "/api/v1/jobs"))["jobs"]
        if ended > 0:
            assert (ran["code"], ran["ended"], ran["answer"]["verdict"]["lost"]) == (3, at, 1)
        assert row["audit"] == ("differs" if ended > 0 else "clean")

    asked(made, steps)


@pytest.mark.parametrize("text", ["", "{}", "[" * 5000, '{"began": 1, "ended": 2, "audit": 3}', EVIL])
def test_an_annotation_that_is_no_verdict_is_none(text: str) -> None:
    made = shown()
    odd = job("shop", "sales")
    odd["metadata"] |= {"annotations": {ANNOTATION: text}, "resourceVersion": "2"}
    made.runs(odd)

    async def steps(session: Session) -> None:
        assert (await found(session, AUDIT))["state"] == "never"
        assert [row["audit"] for row in (await found(session, "/api/v1/jobs"))["jobs"]] == [""]

    asked(made, steps)


def test_an_audit_that_has_ended_without_a_verdict_says_why() -> None:
    made = shown()
    why = "the output could not be audited: sink 'out' is a socket sink, which cannot be read back"
    made.cluster.drills.put(over("a", "10:00", 0, phase="Inconclusive", reason="NotAudited", message=why))

    async def steps(session: Session) -> None:
        assert (await found(session, AUDIT))["answer"]["error"]["message"] == why

    asked(made, steps)


ITEM = "/api/v1/jobs/shop.sales/item?text=north&sink=totals"


def may_trace() -> ShownCluster:
    return shown(users(("ann", "create", "pods", "shop"), *looks("bob", "shop")))


async def traced(session: Session) -> Any:
    while (ran := await found(session, ITEM))["state"] == "running":
        await asyncio.sleep(0.01)
    return ran


def test_an_item_is_traced_by_a_pod_beside_the_job_for_who_may_make_one() -> None:
    made = may_trace()
    made.readers.said = '{"traced": [{"sink": "totals", "payload": "north"}]}'

    async def steps(session: Session) -> None:
        assert (await found(session, ITEM))["state"] == "never"
        assert await code(session, ITEM, as_user("bob")) == 403, "an answer has the job's data"
        assert await code(session, ITEM, as_user("bob"), "POST") == 403
        assert await code(session, ITEM, ANN | {"Sec-Fetch-Site": "cross-site"}, "POST") == 403
        assert made.readers.asked == []
        assert await code(session, ITEM, ANN, "POST") == 202
        ran = await traced(session)
        assert (ran["code"], ran["answer"]) == (0, [{"sink": "totals", "payload": "north"}])
        ((name, arguments),) = made.readers.asked
        assert list(arguments) == ["--sink=totals", "--limit=20", "--", "north"]
        assert made.readers.removed == [name], "it does not stay"

    asked(made, steps)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('{"error": {"category": "user", "message": "a socket sink cannot be read"}}', "a socket sink"),
        ("no document", "without an answer"),
        ('{"traced": ', "without an answer"),
        ('{"records": 5}', "without an answer"),
    ],
)
def test_a_look_for_an_item_that_found_no_answer_says_why(said: str, words: str) -> None:
    made = may_trace()
    made.readers.said = said

    async def steps(session: Session) -> None:
        assert await code(session, ITEM, ANN, "POST") == 202
        ran = await traced(session)
        assert ran["code"] != 0 and words in ran["answer"]["error"]["message"]

    asked(made, steps)


def test_a_job_that_cannot_be_launched_has_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    made = may_trace()
    made.readers.launched = False

    async def steps(session: Session) -> None:
        assert await code(session, ITEM, ANN, "POST") == 202
        assert "was not launched" in (await traced(session))["answer"]["error"]["message"]

    asked(made, steps)


def test_a_pod_that_does_not_answer_is_waited_for_so_long_and_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And one that an operator before this one has left is removed, too."""
    monkeypatch.setattr(traced_items, "SECONDS", 0.3)
    made = may_trace()
    made.readers.phase = "Pending"
    made.cluster.put_pod(pod("shop", "sales-trace-left", "sales", "trace"))

    async def steps(session: Session) -> None:
        assert await code(session, ITEM, ANN, "POST") == 202
        assert await code(session, ITEM, ANN, "POST") == 409, "one of a job at a time"
        assert "has not answered" in (await traced(session))["answer"]["error"]["message"]
        assert made.readers.removed == ["sales-trace-left", made.readers.asked[0][0]]

    asked(made, steps)


def test_a_server_that_ends_leaves_no_pod_that_traces() -> None:
    made = may_trace()
    made.readers.phase = "Pending"

    async def steps(session: Session) -> None:
        assert await code(session, ITEM, ANN, "POST") == 202
        while not made.readers.asked:
            await asyncio.sleep(0.01)

    asked(made, steps)
    assert made.readers.removed == [made.readers.asked[0][0]]


@pytest.mark.parametrize("query", ["", "?text=", f"?text={'x' * 1001}"])
def test_an_item_without_a_text_of_a_bounded_length_is_not_looked_for(query: str) -> None:
    made = may_trace()

    async def steps(session: Session) -> None:
        assert await code(session, f"/api/v1/jobs/shop.sales/item{query}", ANN, "POST") == 400
        assert made.readers.asked == []

    asked(made, steps)


@pytest.mark.parametrize(("actions", "drills"), [(False, True), (True, False)])
def test_without_actions_nothing_is_made(actions: bool, drills: bool) -> None:
    made = shown(actions=actions, drills=drills)

    async def steps(session: Session) -> None:
        assert not (await found(session, "/api/v1"))["actions"]
        assert await code(session, DRILL, ANN, "POST") in (403, 404)
        assert await code(session, AUDIT, ANN, "POST") in (403, 404)
        assert await code(session, ITEM, ANN, "POST") in (403, 404)
        assert (made.users.made, made.readers.asked) == ([], [])

    asked(made, steps)


@pytest.mark.parametrize(
    ("headers", "status_"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8001"}, 202),  # behind `kubectl proxy`
    ],
)
def test_another_site_starts_nothing(headers: dict[str, str], status_: int) -> None:
    async def steps(session: Session) -> None:
        assert await code(session, DRILL, ANN | headers, "POST") == status_

    asked(shown(), steps)


@pytest.mark.parametrize("query", ["", "?kill=--all", "?kill=zookeeper", "?kill=worker&after=x"])
def test_a_drill_of_what_is_none_is_refused(query: str) -> None:
    made = shown()

    async def steps(session: Session) -> None:
        assert await code(session, f"/api/v1/jobs/shop.sales/drill{query}", ANN, "POST") == 400
        assert made.users.made == []

    asked(made, steps)


def test_what_a_drill_has_shown_is_its_answer_and_the_verdict_of_the_row() -> None:
    made = shown()
    told = {"phase": "Failed", "reason": "NotClean", "audit": {"clean": False, "lost": 1}}
    meta = {"namespace": "shop", "name": "d", "uid": "d", "creationTimestamp": "2026-11-27T10:00:00Z"}
    made.cluster.drills.put({"metadata": meta, "spec": {"job": "sales"}, "status": told})
    odd = {"namespace": "shop", "name": "odd", "uid": "odd"}
    made.cluster.drills.put({"metadata": odd, "spec": {"job": "sales"}, "status": {"phase": 5}})

    async def steps(session: Session) -> None:
        ran = await found(session, "/api/v1/jobs/shop.sales/drill")
        assert (ran["state"], ran["code"], ran["answer"]["phase"]) == ("done", 3, "Failed")
        (row,) = (await found(session, "/api/v1/jobs"))["jobs"]
        assert row["audit"] == "differs"

    asked(made, steps)


# --- what is shown ------------------------------------------------------------------------------------------


def test_a_row_and_a_status_are_what_the_coordinator_says() -> None:
    async def steps(session: Session) -> None:
        (row,) = (await found(session, "/api/v1/jobs"))["jobs"]
        assert (row["phase"], row["running"], row["p99_ms"], row["epoch"]) == ("Running", True, 9.0, 12)
        told = await found(session, "/api/v1/jobs/shop.sales")
        assert (told["running"], told["status"]["epoch"], told["state"]) == (True, 12, "Running")

    asked(shown(), steps)


def test_a_job_without_a_coordinator_is_shown_as_its_status_was_written() -> None:
    made = shown()
    told: dict[str, Any] = {
        "guarantee": "exactly-once", "epoch": {"number": 7, "cut": "1", "time": "2026-11-27T10:00:00Z"},
        "recovery": {"cause": "lost w0", "time": "", "durationMs": 12.5}, "problems": ["slow"],
    }  # fmt: skip
    made.runs(job("shop", "ended", "Completed", **told), job("shop", "odd", conditions={"a": 1}))

    async def steps(session: Session) -> None:
        rows = {row["job"]: row for row in (await found(session, "/api/v1/jobs"))["jobs"]}
        ended = rows["shop.ended"]
        assert (ended["phase"], ended["running"], ended["epoch"]) == ("Completed", False, 7)
        assert (ended["recovery"], ended["recovery_ms"], ended["problems"]) == ("lost w0", 12.5, 1)
        assert ended["epoch_at"] == 1_795_773_600_000_000
        assert rows["shop.odd"]["phase"] == "Pending", "a status that cannot be read hides no other row"
        assert (await found(session, "/api/v1/jobs/shop.ended"))["status"] is None

    asked(made, steps)


def test_figures_are_the_hour_that_the_leader_has_kept_of_this_job_and_marks_come_from_the_log() -> None:
    made = shown()
    born = {"creationTimestamp": at_micros(BEGAN + SECOND), "resourceVersion": "2"}
    sales = job("shop", "sales")
    made.runs({**sales, "metadata": sales["metadata"] | born})
    for second in range(4):
        made.said.hour.add(Sample(at=BEGAN + second * SECOND, items_in=10.0 * second))
    for line in LOG_LINES:
        fields = json.loads(line)
        made.history.handle(record("shop.sales", fields))
        made.history.handle(record("bank.ledger", fields | {"worker": "of-another", "cause": "of-another"}))

    async def steps(session: Session) -> None:
        told = await found(session, "/api/v1/jobs/shop.sales/figures")
        said = [dict(zip(told["columns"], sample, strict=True)) for sample in told["samples"]]
        assert [each["items_in"] for each in said] == [20, 30], (
            "the first two are of another job of that name"
        )
        assert [mark["kind"] for mark in told["marks"]] == ["coordinator", "start", "lost", "recovery"]
        assert "of-another" not in json.dumps(told)

    asked(made, steps)


def test_a_new_leaders_page_has_the_last_recovery_from_the_status_once() -> None:
    made = shown()
    told = {"cause": "lost w0.9", "time": "2023-11-14T22:13:24Z", "durationMs": 250.0, "attempt": 2}
    made.runs(job("shop", "moved", recovery=told), told=status())

    async def steps(session: Session) -> None:
        async def marks() -> list[dict[str, Any]]:
            return list((await found(session, "/api/v1/jobs/shop.moved/figures"))["marks"])

        (mark,) = await marks()
        assert (mark["kind"], mark["text"], mark["attempt"]) == ("recovery", "lost w0.9", 2)
        assert (mark["at"], mark["duration_ms"]) == ("2023-11-14T22:13:24.000+00:00", 250.0)
        for line in LOG_LINES:
            made.history.handle(record("shop.moved", json.loads(line)))
        assert [mark["text"] for mark in await marks() if mark["kind"] == "recovery"] == ["lost w0.0"]

    asked(made, steps)


def test_logs_are_of_all_its_pods_and_its_coordinator() -> None:
    made = shown()
    line = '{"at": "2026-11-27T10:00:0%d.000+00:00", "level": "info", "event": "%s", "worker": "%s"}'
    made.users.logs = {
        "sales-driver-a-1": [line % (2, "second", "")],
        "sales-a-1-exec-1": [
            line % (1, "first", "w0"),
            "Traceback: no JSON",
            '{"at": 5, "level": 7, "event": 1}',
        ],
    }
    made.history.handle(record("shop.sales", {"event": "phase"}))
    made.history.handle(record("bank.ledger", {"event": "secret"}))

    async def steps(session: Session) -> None:
        lines = (await found(session, "/api/v1/jobs/shop.sales/logs?level=debug"))["lines"]
        told = [(each["process"], each["event"]) for each in lines]
        assert ("sales-a-1-exec-1", "first") in told and ("coordinator", "phase") in told
        assert told.index(("sales-a-1-exec-1", "first")) < told.index(("sales-driver-a-1", "second"))
        assert "secret" not in json.dumps(lines)
        of_one = (await found(session, "/api/v1/jobs/shop.sales/logs?process=w0"))["lines"]
        assert [each["event"] for each in of_one] == ["first"]
        assert await code(session, "/api/v1/jobs/shop.sales/logs?level=loud") == 400
        for _ in range(20):
            await found(session, "/api/v1/jobs/shop.sales/logs")
        assert len(made.users.read) == 2, "read once for all who look"

    asked(made, steps)


def test_a_log_that_nobody_gives_is_a_line_that_says_so() -> None:
    async def steps(session: Session) -> None:
        lines = (await found(session, "/api/v1/jobs/shop.sales/logs"))["lines"]
        assert all("cannot be read" in each["event"] for each in lines) and len(lines) == 2

    asked(shown(), steps)


def test_the_graph_is_what_its_driver_has_logged() -> None:
    made = shown()
    plan = {"vertices": [{"id": 0, "kind": "source", "name": "in"}]}
    made.users.logs["sales-driver-a-1"] = [json.dumps({"event": "another"}), "text"]

    async def steps(session: Session) -> None:
        first = await found(session, "/api/v1/jobs/shop.sales/graph")
        assert "no driver" in first["answer"]["error"]["message"]
        made.users.logs["sales-driver-a-1"].append(json.dumps({"event": "graph", "plan": plan}))
        for _ in range(5):
            assert (await found(session, "/api/v1/jobs/shop.sales/graph"))["answer"] == plan
        assert len(made.users.read) == 2, "a driver says it once"

    asked(made, steps)


def test_savepoints_are_among_the_snapshots() -> None:
    made = shown()
    meta = {"namespace": "shop", "name": "before", "uid": "s"}
    told = {"phase": "Completed", "epoch": 5, "size": 10, "objects": 2, "time": "2026-11-27T10:00:00Z"}
    made.cluster.snapshots.put({"metadata": meta, "spec": {"job": "sales"}, "status": told})
    made.cluster.snapshots.put(
        {"metadata": {**meta, "name": "other", "uid": "o"}, "spec": {"job": "x"}, "status": told}
    )

    async def steps(session: Session) -> None:
        (one,) = (await found(session, "/api/v1/jobs/shop.sales/snapshots"))["answer"]
        assert (one["savepoint"], one["epoch"], one["bytes"]) == ("before", 5, 10)

    asked(made, steps)


def test_a_message_is_only_a_text() -> None:
    made = shown()
    made.runs(job("shop", "odd", "Failed", message=EVIL), told=status(message=EVIL, problems=[EVIL]))

    async def steps(session: Session) -> None:
        async with session.get("/api/v1/jobs/shop.odd", headers=ANN) as answer:
            assert (answer.content_type, answer.headers["X-Content-Type-Options"]) == (
                "application/json",
                "nosniff",
            )
            assert (await answer.json())["state"] == f"Failed: {EVIL}"

    asked(made, steps)


# --- several replicas ---------------------------------------------------------------------------------------


def relay_to(leader: ShownCluster) -> Callable[[Any, str, int], Relay]:
    """Two pods have one port at two addresses; here they have two ports of one."""
    return lambda api, namespace, _: Relay(api, namespace, leader.settings.port)


def test_a_replica_that_does_not_lead_gives_the_leaders_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = shown()
    other = ShownCluster(leader.users, leads=False)
    leader.users.leader = "127.0.0.1"

    async def run() -> None:
        async with leader.served():
            monkeypatch.setattr(serving, "Relay", relay_to(leader))
            async with other.served(), Session(base_url=other.address) as session:
                assert [row["job"] for row in (await found(session, "/api/v1/jobs"))["jobs"]] == [
                    "shop.sales"
                ]
                assert await code(session, "/api/v1/jobs/bank.ledger") == 403
                assert await code(session, "/api/v1/jobs/shop.sales/nothing") == 404
                assert await code(session, DRILL, ANN, "POST") == 202
                async with session.get("/api/v1/events?job=shop.sales", headers=ANN) as answer:
                    assert answer.content_type == "text/event-stream"
                    assert await answer.content.readline() == b"event: status\n"
                assert await code(session, "/api/v1/jobs", {}) == 401, "its own door asks first"

    asyncio.run(run())


def test_a_leader_asks_for_a_job_of_another_shard_the_leader_of_that(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = shown()
    other = ShownCluster(leader.users)
    other.runs(*leader.cluster.jobs)
    other.others.add("shop.sales")
    leader.users.leader = "127.0.0.1"

    async def run() -> None:
        async with leader.served():
            monkeypatch.setattr(serving, "Relay", relay_to(leader))
            async with other.served(), Session(base_url=other.address) as session:
                assert (await found(session, "/api/v1/jobs/shop.sales"))["status"] is not None
                assert (await found(session, "/api/v1/jobs"))["jobs"], "a list is its own"
                async with session.get("/api/v1/events?job=shop.sales", headers=ANN) as answer:
                    assert await answer.content.readline() == b"event: status\n"

    asyncio.run(run())


def test_where_nobody_leads_it_says_so_and_asks_in_no_circle() -> None:
    made = shown(leads=False)

    async def steps(session: Session) -> None:
        assert await code(session, "/api/v1/jobs") == 503
        made.users.leader = "127.0.0.1"  # itself
        await asyncio.sleep(0)
        assert await code(session, "/api/v1/jobs", ANN | {"X-FlameStream-Relayed": "1"}) == 503

    asked(made, steps)


def test_a_request_that_names_another_server_is_asked_of_the_leader_alone() -> None:
    """Its first line may be any address: what is passed on is its path."""
    made = shown(leads=False)
    heard: list[bytes] = []

    async def run() -> None:
        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readline())
            writer.close()

        elsewhere = await asyncio.start_server(hear, "127.0.0.1", 0)
        port = elsewhere.sockets[0].getsockname()[1]
        async with made.served(), elsewhere:
            for target in (
                f"http://127.0.0.1:{port}/api/v1/jobs",
                f"@127.0.0.1:{port}/api/",
                "//x/api/v1/jobs",
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", made.settings.port)
                head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ann\r\n"
                writer.write(f"{head}Connection: close\r\n\r\n".encode())
                answer = await reader.read()
                assert answer.split()[1] in (b"400", b"404", b"503"), answer
                writer.close()
        assert heard == []

    asyncio.run(run())


# --- too much, and files ------------------------------------------------------------------------------------


def test_of_too_many_viewers_of_one_user_the_last_are_refused_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "MOST_OF_ONE", 3)

    async def steps(session: Session) -> None:
        inside = [await session.get("/api/v1/events", headers=ANN) for _ in range(3)]
        assert await code(session, "/api/v1/events") == 429
        other = await session.get("/api/v1/events", headers=as_user("root"))
        assert other.status == 200
        for each in (*inside, other):
            each.close()

    asked(shown(), steps)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thousands_of_clients_of_events_are_bounded_and_hide_no_page(count: int) -> None:
    """Each is a connection that asks for events and stays; the port keeps so many, and answers the next."""
    made = shown()

    async def run() -> None:
        async with made.served() as runner:
            request = b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer root\r\n\r\n"
            clients: list[asyncio.StreamWriter] = []
            for number in range(count):
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", made.settings.port)
                    writer.write(request)
                    clients.append(writer)
                except ConnectionError:
                    continue
                if len(clients) > 500:
                    clients.pop(0).close()
                if number % 100 == 0:
                    server_ = runner.server
                    assert server_ is not None
                    inside = [each for each in server_.connections if each.transport is not None]
                    assert len(inside) <= listening.MOST_CONNECTIONS + 1
            for writer in clients:
                writer.close()
            async with Session(base_url=made.address) as session, asyncio.timeout(60):
                assert await code(session, "/api/v1/jobs") == 200

    asyncio.run(run())


def test_a_viewer_that_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TAKES_NOTHING", 0.2)
    monkeypatch.setattr(viewers, "LOOK", 0.01)
    made = shown()

    async def run() -> None:
        async with made.served() as runner:
            reader, writer = await asyncio.open_connection("127.0.0.1", made.settings.port, limit=1)
            head = "GET /api/v1/events?job=shop.sales HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ann\r\n\r\n"
            writer.write(head.encode())
            assert await reader.read(1)
            made.said.jobs["shop.sales"] = status(message="x" * 1_000_000)
            server_ = runner.server
            assert server_ is not None
            async with asyncio.timeout(60):
                while server_.connections:
                    await asyncio.sleep(0.02)
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "path",
    ["/assets/../index.html", "/assets/..%2f..%2fserver.py", "/assets/%2e%2e/server.py", "/assets//etc/passwd",
     "/assets/page.js%00", "/api/v1/jobs/..%2f..%2fetc", "/api/v1/jobs/../../etc", "/assets/" + "a" * 3000],
)  # fmt: skip
@pytest.mark.parametrize("leads", [True, False])
def test_a_path_leads_nowhere_else(path: str, leads: bool) -> None:
    made = shown(leads=leads)

    async def run() -> None:
        async with made.served():
            reader, writer = await asyncio.open_connection("127.0.0.1", made.settings.port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            assert answer.split()[1] in (b"400", b"401", b"404"), answer

    asyncio.run(run())


def test_a_page_that_nobody_looks_at_asks_coordinators_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "LOOK", 0.001)
    made = shown()

    async def steps(session: Session) -> None:
        await asyncio.sleep(0.1)
        assert made.said.asked == 0

    asked(made, steps)


def test_a_list_is_made_once_for_all_who_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "LOOK", 3600.0)
    made = shown()

    async def steps(session: Session) -> None:
        for _ in range(10):
            assert await code(session, "/api/v1/jobs", as_user("root")) == 200
        assert made.said.asked == 2, "two jobs, each once"

    asked(made, steps)
