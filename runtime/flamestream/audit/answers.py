"""The answers of calls beside their requests: each request of a job that has completed has one answer, and
each answer one request.

Does not: ask the outside what it did (nobody here can), or judge what follows from the answers (that is the
sinks').
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from flamestream.model.calls.call import Answer, hash_of
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta, floor, time_of_meta
from flamestream.model.payload import encode
from flamestream.model.time import START, Time
from flamestream.reference import Results, Run
from flamestream.testing.input_audit import Finding


def unpaired(
    graph: Graph, runs: Iterable[tuple[str, Run]], results: Results, cut: Time, *, completed: bool
) -> dict[str, list[Finding]]:
    """Requests without an answer, and answers that fit no request, by call. `runs`: those that entered, with
    their sources; `results` of the reference from `cut` on; `completed`: nothing may be without an answer."""
    answers: dict[str, list[Answer]] = {name: [] for name in graph.calls}
    for source, (_, records) in runs:
        if source in answers:
            answers[source] += [record for record in records if isinstance(record, Answer)]
    return {
        name: list(_findings(results[name], its, floor(cut), completed=completed))
        for name, its in answers.items()
    }


def asked_below(runs: Iterable[Run]) -> Time:
    """All that the answers in these runs answer is of times below it."""
    requests = (record.request for _, records in runs for record in records if isinstance(record, Answer))
    return max((Time(time_of_meta(Meta(request)) + 1) for request in requests), default=START)


def _findings(
    asked: Iterable[tuple[Meta, object]], answers: Sequence[Answer], begin: Meta, *, completed: bool
) -> Iterator[Finding]:
    requests = {meta: hash_of(encode(payload)) for meta, payload in asked}
    answered = Counter(Meta(answer.request) for answer in answers)
    # by request, not by hash: a second answer is one too many, whatever it says
    doubled = sum(count - 1 for count in answered.values())
    if doubled:
        yield Finding("unexpected", doubled, f"{doubled:,} answers to requests that had one already")
    # What was asked below the cut is in the snapshot that the job began with, and in no result here.
    foreign = [
        meta
        for answer in answers
        if (meta := Meta(answer.request)) >= begin and requests.get(meta) != answer.hash
    ]
    if foreign:
        first = time_of_meta(min(foreign))
        text = f"{len(foreign):,} answers to what was not asked, the first to a request of time {first}"
        yield Finding("unexpected", len(foreign), text)
    # while the job runs an answer may be under way
    missing = [meta for meta in requests if not answered[meta]] if completed else []
    if missing:
        text = f"{len(missing):,} requests without an answer, the first of time {time_of_meta(min(missing))}"
        yield Finding("missing", len(missing), text)
