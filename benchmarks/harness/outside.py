"""The outside of a benchmark: a producer and a consumer, each a process of its own, on one machine's
monotonic clock.

    python benchmarks/harness/outside.py producer --port P --documents N --rate R --report FILE
    python benchmarks/harness/outside.py consumer --port P --report FILE

How they send, take and stamp: wire.py. The producer's pace begins when the engine first asks. Both end at
SIGTERM, and then report.
"""

import argparse
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.corpus import documents
from harness.wire import TICK, Consumer, Producer, Wire


def serve(wire: Wire, wait: Callable[[], float], work: Callable[[], None]) -> None:
    """Until SIGTERM."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    print("ready", flush=True)
    while not stopped:
        wire.turn(wait())
        work()


def produce(port: int, lines: list[bytes], rate: float, fill: int) -> dict[str, Any]:
    """When each document was due and when it left, and how many changes it makes. The first `fill` leave as
    fast as they are taken."""
    wire = Wire()
    producer = Producer(wire, "127.0.0.1", port, lines.__getitem__)
    paces = [*([(0.0, fill)] if fill else []), (rate, len(lines) - fill)]

    def work() -> None:
        if paces and producer.is_asked and len(producer.sent) == producer.wanted:
            producer.more(*paces.pop(0))
            producer.ended = not paces
        producer.send_due()

    serve(wire, producer.wait, work)
    expected = [len(set(line.decode().partition("\t")[2].split())) for line in lines]
    return {"due": producer.due, "sent": producer.sent, "expected": expected}


def consume(port: int) -> dict[str, Any]:
    """When each document's last change came, how many came, and the times of all deliveries."""
    wire = Wire()
    consumer = Consumer(wire, "127.0.0.1", port)
    serve(wire, lambda: TICK, lambda: None)
    return report(consumer)


def report(consumer: Consumer) -> dict[str, Any]:
    """Of all that came."""
    import workload  # registers the payload types

    from flamestream.model.payload import decode_items

    consumer.read()
    if consumer.problem:
        raise SystemExit(consumer.problem)
    last: dict[int, float] = {}
    counts: dict[int, int] = {}
    lengths: dict[str, int] = {}
    disorder = 0
    for when, bundles in consumer.deliveries:
        for bundle in bundles:
            for _, change in decode_items(bundle[3]):
                assert isinstance(change, workload.Change)
                last[change.document] = when
                counts[change.document] = counts.get(change.document, 0) + 1
                disorder += change.documents != lengths.get(change.word, 0) + 1
                lengths[change.word] = change.documents
    return {
        "last": last,
        "counts": counts,
        "disorder": disorder,
        "deliveries": [when for when, _ in consumer.deliveries],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("role", choices=["producer", "consumer"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--mean", type=int, default=250)
    parser.add_argument(
        "--rate", type=float, default=50.0, help="documents a second; 0: as fast as they are taken"
    )
    parser.add_argument("--lines", type=Path, help="a file of documents instead of the corpus")
    parser.add_argument(
        "--fill", type=int, default=0, help="so many leave as fast as they are taken, before the rate counts"
    )
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    if options.role == "consumer":
        found = consume(options.port)
    else:
        lines = (
            options.lines.read_text().splitlines()
            if options.lines
            else documents(options.documents, options.mean)
        )
        found = produce(options.port, [line.encode() for line in lines], options.rate, options.fill)
    options.report.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
