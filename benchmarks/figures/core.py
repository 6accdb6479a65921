"""The core alone: CPU time a record of one worker, without sockets, and how it grows with the state.

    python benchmarks core                                   # 2,000 documents
    python benchmarks core --documents 100000 --step 10000   # does a record cost the same when the posting
                                                             lists are long?
    python benchmarks core --job counts --documents 30000    # bounded keys: memory must stop growing
    python benchmarks core --job hot --documents 10000       # half of all items belong to one key
    python benchmarks core --traced 1000                     # one run in a thousand is traced; its spans go nowhere
    python benchmarks core --job columns --batch 64          # a vectorised function and ready-made ones;
                                                             chain, behind: several

CPU seconds of this process, so a busy machine disturbs it less than a wall clock would. Epochs are taken
every `--epoch` documents, as often as in a run at 50 documents a second with 1 s epochs. `--floor` measures
the same job as a plain loop over dicts and lists.
"""

import argparse
import gc
import json
import resource
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import workload
from harness.corpus import documents

import flamestream as fs
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol import actions, events, messages
from flamestream.core.protocol.chain import Chain
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.core.worker.worker import Worker
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    Offset,
    Partition,
    SourceName,
    WorkerId,
)
from flamestream.model.kernel import kernel
from flamestream.model.layout import Assignment, Layout
from flamestream.model.time import START, FrontId, Instant, Timestamp

ME, FRONT, FENCE = WorkerId("w"), FrontId(0), Fence(Attempt(1), LayoutVersion(1))
SLOTS = 256


def counts() -> fs.Graph:
    """Words counted: as many keys as the vocabulary, whatever the number of documents."""
    graph = fs.Graph("counts")
    counted = (
        graph.source("docs")
        .flat_map(workload.words)
        .reduce(key=workload.word_of, initial=int, combine=lambda n, _: n + 1)
    )
    counted.sink("index")
    return graph


def hot() -> fs.Graph:
    """The index, but half of all items go to one key, whatever their word."""

    def key(item: workload.Posting) -> str:
        return "the hot one" if zlib.crc32(f"{item.word} {item.document}".encode()) & 1 else item.word

    graph = fs.Graph("hot")
    grown = graph.source("docs").flat_map(workload.words)
    grown.reduce(key=key, initial=fs.Vector, combine=workload.appended, emit=workload.change).sink(
        "index", key=workload.word_of
    )
    return graph


def columns(name: str = "graph") -> fs.Graph:
    """The index by vectorised functions and ready-made ones."""
    import workload_columns

    made: fs.Graph = getattr(workload_columns, name)
    return made


GRAPHS: dict[str, Callable[[], fs.Graph]] = {
    "index": lambda: workload.graph,
    "ready-made": lambda: workload.ready_made,
    "columns": columns,
    "chain": lambda: columns("chained"),
    "behind": lambda: columns("behind"),
    "counts": counts,
    "hot": hot,
}


class Alone:
    """One worker whose outside answers at once. With an index it begins with those chains."""

    def __init__(
        self, graph: fs.Graph, parts: Parts, index: SnapshotIndex | None = None, chains: Sequence[Chain] = (),
        source: str = "docs", traced: int = 0,
    ) -> None:  # fmt: skip
        """`traced`: one run in so many is; 0: none, and nothing of traces is there."""
        settings = WorkerSettings("core", SLOTS, (FrontSettings(FRONT, SourceName(source), timed=False),))
        self.worker = Worker(ME, graph.validated(), settings, parts)
        self._step = self._traced(graph, traced) if traced else self.worker.step
        self.items = 0
        self._answers: list[events.Event] = []
        self._chains = chains
        self._epoch = 0 if index is None else index.epoch
        self._clock = 0
        assignment = Assignment(FENCE, Layout(LayoutVersion(1), (ME,) * SLOTS, (ME,), ME))
        self.tell(messages.Recover(assignment, {ME: ""}, "", START, Epoch(self._epoch), index))
        self.tell(messages.Seal(FENCE))
        self.tell(messages.Replay(FENCE, START))

    def _traced(self, graph: fs.Graph, every: int) -> Callable[..., list[actions.Action]]:
        from flamestream.node.tracing.identities import Identities
        from flamestream.node.tracing.traced_worker import TracedWorker

        identities = Identities("core", every)
        return TracedWorker(self.worker, graph, identities, lambda span: None, lambda: self._clock).step

    def tell(self, message: messages.ToWorker) -> None:
        """As the coordinator."""
        self.run([events.FromCoordinator(message)])

    def documents(self, number: int, lines: Sequence[str]) -> None:
        """Records enter together, as they do when they wait, and their results leave."""
        self.run(
            [
                events.RecordsArrived(
                    FENCE, FRONT, Partition(""), Offset(number), list(lines), sum(map(len, lines))
                )
            ]
        )

    def epoch(self) -> None:
        """Announce one; its acceptance commits it."""
        self._epoch += 1
        self.tell(messages.Announce(FENCE, Epoch(self._epoch), []))

    def run(self, todo: Sequence[events.Event]) -> None:
        """Until nothing is left to do."""
        while todo:
            self._clock += 1
            for action in self._step(Timestamp(self._clock), Instant(self._clock), todo):
                self._act(action)
            todo, self._answers = self._answers, []

    def _act(self, action: actions.Action) -> None:
        match action:
            case actions.Deliver():
                self.items += sum(len(bundle.items) for bundle in action.bundles)
                self._answers.append(events.BundlesAcknowledged(FENCE, action.sink, action.number))
            case actions.Append():
                self._answers.append(events.JournalAppended(FENCE, FRONT, action.entry.time))
            case actions.OpenSink():
                self._answers.append(events.SinkOpened(FENCE, action.sink, {}))
            case actions.SealJournal():
                self._answers.append(events.JournalSealed(FENCE, FRONT, []))
            case actions.Load():
                self._answers.append(events.Loaded(FENCE, self._chains))
            case actions.Upload():
                self._answers.append(events.Uploaded(FENCE, action.epoch, [], []))
            case actions.Wake():
                self._answers.append(events.Woken())
            case actions.ToldCoordinator(messages.Accepted(epoch=epoch, cut=cut)):
                self._answers.append(events.FromCoordinator(messages.Committed(FENCE, epoch, cut)))
            case actions.ToldCoordinator(messages.Failed(message=message)):
                raise SystemExit(message)


def plain_loop(lines: Sequence[str]) -> Callable[[], int]:
    """The floor: the same job as a loop over dicts and lists, with nothing around it."""

    def loop() -> int:
        postings: dict[str, list[Any]] = {}
        out = 0
        for line in lines:
            for posting in workload.words(line):
                its = postings.setdefault(posting.word, [])
                its.append((posting.document, posting.positions))
                out += len(
                    repr(workload.Change(posting.word, posting.document, posting.positions, len(its)).word)
                )
        return out

    return loop


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row a step of documents."""
    parts = REFERENCE if options.reference else FASTEST
    alone = Alone(GRAPHS[options.job](), parts, traced=options.traced)
    lines = documents(options.documents, options.mean)
    rows, number = [], 0
    gc.disable()
    if kernel is not None:
        kernel.huge_arenas()  # as a worker process has them
    while number < options.documents:
        chunk = [next(lines) for _ in range(min(options.step, options.documents - number))]
        records = sum(len(set(line.partition("\t")[2].split())) for line in chunk)
        start = time.process_time()
        for at in range(0, len(chunk), options.batch):
            together = chunk[at : at + options.batch]
            alone.documents(number, together)
            if number // options.epoch < (number + len(together)) // options.epoch:
                alone.epoch()
            number += len(together)
        spent = time.process_time() - start
        row = {
            "documents": number,
            "us_a_record": round(spent / records * 1e6, 2),
            "records_a_cpu_second": round(records / spent),
        }
        if options.floor:
            row["plain_loop_us"] = round(_cpu(plain_loop(chunk)) / records * 1e6, 2)
        rows.append(row | {"rss_mb": _rss()})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--mean", type=int, default=250)
    parser.add_argument("--step", type=int, default=1000, help="documents a row")
    parser.add_argument(
        "--batch",
        type=int,
        default=1,
        help="documents that enter together: one at a low rate, dozens at full rate",
    )
    parser.add_argument("--epoch", type=int, default=50, help="documents an epoch")
    parser.add_argument("--job", choices=sorted(GRAPHS), default="index")
    parser.add_argument(
        "--reference", action="store_true", help="the Python parts instead of the native ones"
    )
    parser.add_argument("--traced", type=int, default=0, help="one run in so many; 0: none")
    parser.add_argument("--floor", action="store_true", help="also the plain loop, in the same run")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
