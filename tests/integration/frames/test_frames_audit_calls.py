"""The Spark audit of a job with calls says what the audit in one process says, of a whole run and of damaged
ones."""

from collections.abc import Callable, Iterator

import pytest

import flamestream as fs
from flamestream.audit.answer_rows import answer_rows, unpaired_rows
from flamestream.audit.answers import unpaired
from flamestream.audit.committed import cluster_state_of, committed_here
from flamestream.audit.job_audit import audited_here
from flamestream.audit.reference_rows import ReferenceJob, rows_of
from flamestream.audit.report import Report
from flamestream.cli.spark.audit import audited_in
from flamestream.connectors.files.pieces import Given
from flamestream.job.validation import checked
from flamestream.model.calls.call import Answer, hash_of
from flamestream.model.meta import Meta, floor
from flamestream.model.payload import encode
from flamestream.model.time import START, FrontId, Time, Timestamp, time_of
from flamestream.reference import Run, interpret
from flamestream.spark.frames.job_graph import ByValue
from flamestream.testing.input_audit import Finding
from support.frames.kept_answers import ASKING, CHANCE, completed_stream
from support.frames.session import pieces, spark_session
from support.runs.cli_job import CliJob

pytestmark = [pytest.mark.spark, pytest.mark.frames]


@pytest.fixture(scope="module", params=[ASKING, CHANCE], ids=["calls", "productions"])
def stream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliJob]:
    job = completed_stream(tmp_path_factory.mktemp("stream"), request.param)
    yield job
    job.close()


def in_spark(job: CliJob) -> Report:
    its = checked(job.manifest)
    with cluster_state_of(job.run_folder) as zookeeper:
        last = committed_here(job.run_folder, zookeeper, its.job.name, its.job.store)
    return audited_in(spark_session(), its, last)


def test_a_job_with_calls_is_audited_as_in_one_process(stream: CliJob) -> None:
    found = in_spark(stream)
    assert found.clean and found.verdict.delivered > 100
    assert found == audited_here(checked(stream.manifest), stream.run_folder)


def test_answers_to_other_requests_are_found_as_in_one_process(stream: CliJob) -> None:
    orders = stream.path / "orders.jsonl"
    kept = orders.read_text()
    orders.write_text(kept.replace("17\n", "71\n"))
    try:
        found = in_spark(stream)
        assert any("answers to what was not asked" in text for each in found.input for text in each.problems)
        assert found == audited_here(checked(stream.manifest), stream.run_folder)
    finally:
        orders.write_text(kept)


# --- requests and answers beside one another ----------------------------------------------------------------


def tripled(order: int) -> int:
    return 3 * order


def failing(order: int) -> int:
    if order == 2:
        raise ValueError("not this one")
    return order


def graph() -> fs.Graph:
    made = fs.Graph("prices")
    made.source("orders").map(failing).call(tripled).sink("out")
    return made.validated()


def at(number: int, front: int) -> Time:
    return time_of(Timestamp(number), FrontId(front))


def whole() -> list[Run]:
    """Four orders, and the answers to the three that can be asked."""
    runs: list[Run] = [(at(number, 0), [number]) for number in (1, 2, 3, 4)]
    requests = interpret(graph(), runs)["tripled()"]
    answers = [Answer(meta, hash_of(encode(order)), (3 * order,)) for meta, order in requests]
    return [*runs, *((at(5 + number, 1), [answer]) for number, answer in enumerate(answers))]


def without_answer(runs: list[Run]) -> list[Run]:
    return runs[:-1]


def answered_twice(runs: list[Run]) -> list[Run]:
    return [*runs, (at(9, 1), runs[-1][1])]


def of_another_request(runs: list[Run]) -> list[Run]:
    return [*runs, (at(9, 1), [Answer(b"\x00" * 9, b"", (7,))])]


def of_another_payload(runs: list[Run]) -> list[Run]:
    return [*runs[:-1], (at(9, 1), [Answer(runs[-1][1][0].request, b"another", (7,))])]


Damage = Callable[[list[Run]], list[Run]]


@pytest.mark.parametrize(
    "damage", [list, without_answer, answered_twice, of_another_request, of_another_payload]
)
@pytest.mark.parametrize("on_error", ["dead-letter", "fail"])
def test_what_has_no_other_part_is_what_it_is_in_one_process(damage: Damage, on_error: str) -> None:
    its, runs, fails = graph(), damage(whole()), on_error == "fail"
    names = {FrontId(number): source.name for number, source in enumerate(its.sources)}
    entered = [(names[FrontId(time & 4095)], (time, records)) for time, records in runs]
    results = interpret(its, runs, on_error="fail" if fails else "dead-letter")
    expected = unpaired(its, entered, results, START, completed=True)["tripled()"]
    spark, sink = spark_session(), its.calls["tripled()"].id
    rows = rows_of(spark, ReferenceJob(ByValue.of(its), 4, fails), pieces(its, runs), partitions=2)
    given = Given(tuple(run for name, run in entered if name == "tripled()"))
    found = unpaired_rows(rows, answer_rows(spark, [(sink, given)], START), [sink], floor(START))
    told: list[Finding] = [*found[sink].findings(completed=True)] if sink in found else []
    assert told == expected
    assert bool(told) == (damage is not list or fails)


def test_what_was_asked_before_the_beginning_is_in_no_result() -> None:
    spark, sink = spark_session(), graph().calls["tripled()"].id
    rows = rows_of(spark, ReferenceJob(ByValue.of(graph()), 4, False), [], partitions=2)
    given = Given([(at(9, 1), [Answer(bytes(floor(at(3, 0))) + b"\x00", b"", (7,))])])
    answers = answer_rows(spark, [(sink, given)], START)
    assert not unpaired_rows(rows, answers, [sink], Meta(floor(at(4, 0))))[sink].foreign
    assert unpaired_rows(rows, answers, [sink], Meta(floor(at(3, 0))))[sink].foreign == 1
