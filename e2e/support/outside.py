"""The outside of a job under test, in a pod of its own: a producer of real text, a consumer that remembers
everything, and an auditor.

    python3 outside.py            producer on 7001, consumer on 7002, questions by HTTP on 7003

How both send, take and stamp: benchmarks/harness/wire.py, which lies beside this file in the pod. With
SPEAKS=lines they speak plain lines, for Flink. The audit
computes what a sequential interpreter makes of the same documents and compares every slot byte by byte; it
may be asked while the job runs (then a slot may lack what is still under way, but must have a prefix) or when
everything is through.

    /rate?per_second=50&documents=1000   send so many more, at that pace (0: as fast as they are taken)
    /end                                 no more documents will come
    /state                               documents sent, deliveries, items, the time
    /gap?since=T                         the longest pause between deliveries since then, and when it ended
    /latency?first=N&last=M              of documents N to M, in milliseconds
    /audit?ticks=CUT:VERSION,...         counts of what is lost, doubled, reordered, foreign; and whether all
                                         is through. `ticks`: from which cut on which version of the code has
                                         to have made an item, which says that itself (versions.py)
"""

import bisect
import gc
import importlib
import itertools
import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from harness.versions import Ticks, unmarked
from harness.wire import Consumer, LineConsumer, LineProducer, Producer, Wire

sys.path.insert(0, "/opt/flamestream/app")

WORDS = int(os.environ.get("WORDS", "250"))
KEYS = int(os.environ.get("KEYS", "0"))
APPLICATION = os.environ.get("APPLICATION", "workload")
AT_ONCE = 250
"""Keys of a document of those that name each once."""
TOUCHED = 20
"""The same of all others."""
SLOTS = 256


def documents() -> list[str]:
    """Real text, the same wherever this image runs: Python's own library, cut into pieces of WORDS words."""
    pieces: list[str] = []
    for file in sorted(Path("/usr/lib/python3.11").glob("*.py")):
        words = file.read_text(encoding="utf-8", errors="replace").split()
        pieces += [" ".join(words[at : at + WORDS]) for at in range(0, len(words), WORDS)]
    return pieces


def named(number: int) -> str:
    """Some of KEYS: in the first documents each once, then random ones."""
    first = number * AT_ONCE
    each_once = range(KEYS)[first : first + AT_ONCE]
    keys = each_once or random.Random(number).sample(range(KEYS), TOUCHED)
    return " ".join(f"k{key}" for key in keys)


class Outside:
    """Producer and consumer in one loop, and what is asked about them in another thread."""

    def __init__(
        self,
        producer: type[Producer] = Producer,
        consumer: type[Consumer] | type[LineConsumer] = Consumer,
    ) -> None:
        self._pieces = documents()
        self._wire = Wire()
        # the pod's address
        self.producer = producer(self._wire, "0.0.0.0", 7001, lambda number: self.text(number).encode())
        self._consumer = consumer(self._wire, "0.0.0.0", 7002)

    def text(self, number: int) -> str:
        """Document `number`."""
        return f"{number}\t{named(number) if KEYS else self._pieces[number % len(self._pieces)]}"

    def serve(self) -> None:
        """For ever. Deliveries are looked into, one by one, while nothing else is to be done."""
        while True:
            if not self._wire.turn(0.0 if self._consumer.is_behind else self.producer.wait()):
                self._consumer.read(1)
            self.producer.send_due()

    @property
    def deliveries(self) -> Sequence[tuple[float, list[Any]]]:
        return self._consumer.deliveries

    def state(self) -> dict[str, Any]:
        """How far it is."""
        last = self.deliveries[-1][0] if self.deliveries else 0.0
        return {
            "now": time.monotonic(), "base": self.producer.base, "sent": len(self.producer.sent),
            "wanted": self.producer.wanted, "deliveries": len(self.deliveries), "last": last,
            "first": self.deliveries[0][0] if self.deliveries else 0.0,
        }  # fmt: skip

    def gap(self, since: float) -> dict[str, Any]:
        """The longest pause since then."""
        times = [since, *(when for when, _ in list(self.deliveries) if when >= since)]
        gaps = sorted(((b - a) * 1e3, b) for a, b in itertools.pairwise(times))
        longest, ended = gaps[-1] if gaps else (0.0, 0.0)
        clock = time.time() - time.monotonic()
        ends = [
            [round(ms), datetime.fromtimestamp(end + clock, UTC).isoformat(timespec="milliseconds")[11:-6]]
            for ms, end in gaps[-1:-5:-1]
        ]
        return {
            "gap_ms": round(longest, 1),
            "ended_after_s": round(ended - since, 3),
            "deliveries": len(times) - 1,
            "longest": ends,
        }

    def latency(self, first: int, last: int) -> dict[str, Any]:
        """From when a document was due to leave to when its last change was received."""
        from flamestream.model.payload import decode_items

        importlib.import_module(APPLICATION)  # registers the payload types
        due = self.producer.due
        if first >= len(due):
            return {"documents": 0}
        done: dict[int, float] = {}
        # the rest is of documents before
        begun = bisect.bisect_left(self.deliveries, due[first], key=itemgetter(0))
        for when, bundles in self.deliveries[begun:]:
            for bundle in bundles:
                for _, change in decode_items(bundle[3]):
                    done[change.document] = when
        ordered = sorted((done[i] - due[i]) * 1e3 for i in range(first, min(last, len(due))) if i in done)
        if not ordered:
            return {"documents": 0}
        quantiles = {
            f"p{q}": round(ordered[min(len(ordered) - 1, q * len(ordered) // 100)], 2) for q in (50, 95, 99)
        }
        return {"documents": len(ordered), **quantiles, "max": round(ordered[-1], 1)}

    def audit(self, ticks: str = "") -> dict[str, Any]:
        """Every slot's items, in the order delivered, against the reference, and each against the version of
        the code that had to make it."""
        from flamestream.model import payload as payloads
        from flamestream.model.meta import Meta, time_of_meta
        from flamestream.model.slot import slot_of
        from flamestream.model.time import START, FrontId, next_time
        from flamestream.reference import interpret

        graph = importlib.import_module(APPLICATION).graph  # from the job's own ConfigMap
        delivered = list(self.deliveries)  # before looking at what was sent: more comes while this runs
        count = len(self.producer.sent)
        time_, runs = next_time(START, FrontId(0)), []
        for number in range(count):
            runs.append((time_, [self.text(number)]))
            time_ = next_time(time_, FrontId(0))
        expected: dict[int, list[bytes]] = {}
        for _, value in interpret(graph, runs)["index"]:
            if value.document < self.producer.base:
                continue
            expected.setdefault(slot_of(payloads.encode(value.word), SLOTS), []).append(
                payloads.encode(value)
            )
        got: dict[int, list[bytes]] = {}
        metas: dict[int, bytes] = {}
        disorder = of_another = 0
        due = Ticks(ticks)
        for _, bundles in delivered:
            for bundle in bundles:
                for meta, value in payloads.decode_items(bundle[3]):
                    disorder += bytes(meta) <= metas.get(bundle[0], b"")
                    metas[bundle[0]] = bytes(meta)
                    version, plain = unmarked(value)
                    of_another += version != due.version_at(time_of_meta(Meta(meta)))
                    got.setdefault(bundle[0], []).append(payloads.encode(plain))
        verdict, problem = verdict_of(expected, got, disorder, count, of_another), self._consumer.problem
        return (
            {**verdict, "complete": False, "clean": False, "first_difference": problem}
            if problem
            else verdict
        )


class LineOutside(Outside):
    """The same for Flink's job of benchmarks/peers, which speaks lines: a change is
    `word<TAB>document<TAB>documents so far<TAB>positions,with,commas`."""

    def __init__(self) -> None:
        super().__init__(LineProducer, LineConsumer)

    def audit(self, ticks: str = "") -> dict[str, Any]:
        """Every word's lines, in the order delivered, against those that its documents make."""
        delivered = list(self.deliveries)  # before looking at what was sent: more comes while this runs
        count = len(self.producer.sent)
        got: dict[bytes, list[bytes]] = {}
        for _, lines in delivered:
            for line in lines:
                got.setdefault(line.partition(b"\t")[0], []).append(line)
        return verdict_of(changes_of(map(self.text, range(count))), got, 0, count)


def changes_of(texts: Iterable[str]) -> dict[bytes, list[bytes]]:
    """The lines of each word, in order."""
    changes: dict[bytes, list[bytes]] = {}
    for text in texts:
        number, _, words = text.partition("\t")
        places: dict[str, list[str]] = {}
        for place, word in enumerate(words.split(" ")):
            places.setdefault(word, []).append(str(place))
        for word, its in places.items():
            lines = changes.setdefault(word.encode(), [])
            lines.append(f"{word}\t{number}\t{len(lines) + 1}\t{','.join(its)}".encode())
    return changes


def verdict_of(
    expected: dict[Any, list[bytes]],
    got: dict[Any, list[bytes]],
    disorder: int,
    sent: int,
    of_another: int = 0,
) -> dict[str, Any]:
    """Counts of what is lost, doubled, reordered or of nowhere, the first difference, and whether all of
    `expected` is there. `of_another`: what another version of the code made than had to, foreign too."""
    lost = doubled = 0
    foreign = of_another
    first = ""
    for slot in sorted({*expected, *got}):
        wanted, found = expected.get(slot, []), got.get(slot, [])
        common = next(
            (at for at, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b),
            min(len(wanted), len(found)),
        )
        if common < len(found):
            first = (
                first
                or f"slot {slot}, item {common}: {found[common]!r} instead of "
                f"{wanted[common] if common < len(wanted) else None!r}"
            )
            doubled += len(found) - len(set(found))
            foreign += len(set(found) - set(wanted))
            lost += len(set(wanted[: len(found)]) - set(found))
    missing = sum(map(len, expected.values())) - sum(map(len, got.values()))
    clean = not (lost or doubled or foreign or disorder or first)
    return {
        "documents": sent, "items": sum(map(len, got.values())), "missing": missing,
        "complete": clean and missing == 0, "clean": clean, "lost": lost, "doubled": doubled,
        "foreign": foreign, "reordered": disorder, "first_difference": first[:500],
    }  # fmt: skip


OUTSIDE = LineOutside() if os.environ.get("SPEAKS") == "lines" else Outside()


class Questions(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        given = dict(parse_qsl(parts.query))
        answer: Any = {}
        if parts.path == "/rate":
            OUTSIDE.producer.more(float(given["per_second"]), int(given["documents"]))
        elif parts.path == "/end":
            OUTSIDE.producer.ended = True
        elif parts.path == "/state":
            answer = OUTSIDE.state()
        elif parts.path == "/gap":
            answer = OUTSIDE.gap(float(given["since"]))
        elif parts.path == "/latency":
            answer = OUTSIDE.latency(int(given["first"]), int(given["last"]))
        elif parts.path == "/audit":
            answer = OUTSIDE.audit(given.get("ticks", ""))
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    # everything is kept, and looking through it would be a pause of ours that is taken for the job's
    gc.disable()
    server = ThreadingHTTPServer(("0.0.0.0", 7003), Questions)  # the pod's
    threading.Thread(target=server.serve_forever, daemon=True).start()
    OUTSIDE.serve()
