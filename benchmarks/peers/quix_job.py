"""Quix Streams: the job between topics, one process a partition.

python benchmarks/peers/quix_job.py BROKERS SOURCE SINK GROUP GUARANTEE COMMIT_SECONDS PROCESSES FOLDER
LINGER_MS
"""

import multiprocessing
import signal
import sys
from typing import Any

from quixstreams import Application
from text import change, collect_less, words


def postings_of(line: str) -> list[dict[str, Any]]:
    return [
        {"word": word, "document": document, "positions": positions}
        for word, document, positions in words(line)
    ]


def index(posting: dict[str, Any], state: Any) -> bytes:
    """An entry a posting, not a list that would be written whole each time."""
    length = (state.get("length") or 0) + 1
    state.set("length", length)
    state.set(str(posting["document"]), posting["positions"])
    return change(posting["word"], posting["document"], length, posting["positions"])[:-1]


def work(number: int, arguments: list[str]) -> None:
    collect_less()
    brokers, source, sink, group, guarantee, commit, _, folder, linger = arguments
    app = Application(
        broker_address=brokers,
        consumer_group=group,
        auto_offset_reset="earliest",
        processing_guarantee=guarantee,  # type: ignore[arg-type]
        commit_interval=float(commit),
        state_dir=f"{folder}/state-{number}",
        producer_extra_config={"linger.ms": float(linger), "socket.nagle.disable": True},
        consumer_extra_config={"fetch.wait.max.ms": 10, "socket.nagle.disable": True},
        loglevel="ERROR",
    )
    docs = app.topic(source, value_deserializer="str")
    changes = app.topic(sink, value_serializer="bytes")
    postings = app.dataframe(docs).apply(postings_of, expand=True)
    postings.group_by("word").apply(index, stateful=True).to_topic(changes)
    app.run()


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=work, args=(number, sys.argv[1:])) for number in range(int(sys.argv[7]))]
    for worker in workers:
        worker.start()
    signal.signal(signal.SIGTERM, lambda *_: [worker.kill() for worker in workers])
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
