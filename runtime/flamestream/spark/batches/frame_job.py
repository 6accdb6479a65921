"""From a checked manifest to a job for DataFrames.

Does not: start Spark, or compute anything (spark/frames).
"""

from flamestream.job.manifest import EXACT, STRONG, DeadLetter
from flamestream.job.recorded import recorded_sources
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.time import START, Time
from flamestream.spark.frames.inputs import Input
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.job_graph import FromFile
from flamestream.store.zookeeper_access import NOWHERE, ZooKeeperAccess


def frame_job(
    checked: CheckedJob, cut: Time = START, *, takes_answers: bool = False, job: str = "",
    zookeeper: ZooKeeperAccess = NOWHERE,
) -> FrameJob:  # fmt: skip
    """The job as DataFrames need it. `cut`: of the history that it began with. `takes_answers`: those of
    calls are read where a stream has kept them. `job`: its identity in a cluster. Raises UserError for a
    graph with calls whose answers are not to be had."""
    described, spec = checked.job, checked.job.spec
    if calls := ", ".join(checked.graph.calls):
        if not takes_answers:
            raise UserError(
                f"{described.name!r} has calls ({calls}), which only a stream makes, and a history has no answers: "
                "begin with a stream, `flamestream run`"
            )
        if spec.journal is None or not spec.journal.keep:
            raise UserError(
                f"{described.name!r} has calls ({calls}), which only a stream makes; Spark's batches take the answers "
                "that one has kept: set journal.keep: true, and run it as a stream first"
            )
    vertices = {vertex.name: vertex.id for vertex in checked.graph.sources}
    recorded = recorded_sources(checked, job, zookeeper, cut)
    inputs = tuple(
        Input(vertices[each.front.source], each, checked.sources[each.front.source].bounded)
        for each in recorded
    )
    in_sequence = tuple(name for name, traits in checked.sources.items() if traits.in_sequence)
    return FrameJob(
        name=job or described.identity,
        graph=FromFile(
            str(checked.application), spec.application.graph, checked.py_files, in_sequence,
            productions=spec.guarantee == STRONG,
        ),
        slots=spec.workers.slots, inputs=inputs, sinks={name: described.sink(name) for name in spec.sinks},
        exactly_once=spec.guarantee in EXACT, debug=spec.debug,
        dead_letter=spec.on_error.dead_letter if isinstance(spec.on_error, DeadLetter) else None,
    )  # fmt: skip


def lacks_answers(count: int) -> str:
    """The problem of a job that has come to its end with requests of calls that have no answer."""
    return (
        f"{count:,} requests of calls have no answer in the journal, so what would follow from them is "
        "missing: run the job as a stream to its end first"
    )
