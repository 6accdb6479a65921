"""The outside of a run between Kafka topics, for peers that need them (kafka_outside.py has its two
processes).

The broker is the one that FLAMESTREAM_BENCH_KAFKA names, or one of its own for each run, from Maven's jars as
in the tests (tests/support/kafka_broker). The producer begins when the system's consumer group is stable, so
that no run begins with a backlog.
"""

import contextlib
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from figures.kafka import _broker, topic
from systems.base import Cell, Failed, Places, Running

from harness.drive import hang_up, listen, outside

READY_WITHIN = 90.0


class Topics:
    """The producer and the consumer of one run, and its broker."""

    def __init__(self, cell: Cell, folder: Path) -> None:
        self._folder, self._stack, self._done = folder, contextlib.ExitStack(), threading.Event()
        self.finished = True
        self._members = cell.workers
        brokers = self._stack.enter_context(_broker(os.environ.get("FLAMESTREAM_BENCH_KAFKA", "")))
        source, sink = topic(brokers, cell.workers), topic(brokers, cell.workers)
        self.places = Places(source, sink, folder, brokers, f"bench-{sink}")
        amount = ["--documents", str(cell.documents), "--rate", str(cell.rate), "--mean", str(cell.mean)]
        self._producer, said = self._outside("producer", source, "sent", *amount)
        isolation = "read_committed" if cell.guarantee == "exactly-once" else "read_uncommitted"
        self._consumer, _ = self._outside(
            "consumer", sink, "received", "--isolation", isolation, "--lines", "--expect", said.split()[-1]
        )
        listen(self._consumer, self._done)

    def await_end(self, running: Running, deadline: float) -> None:
        """Until all has come."""
        self._await_group(running)
        assert self._producer.stdin is not None
        self._producer.stdin.write(b"go\n")
        self._producer.stdin.flush()
        while not self._done.wait(0.05):
            if running.process.poll() is not None:
                raise Failed(f"the system ended with {running.process.returncode}:\n{running.tail()}")
            if time.monotonic() > deadline:
                self.finished = False
                return

    def reports(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both saw."""
        self._producer.wait(120)
        self._consumer.terminate()
        self._consumer.wait(120)
        return json.loads((self._folder / "sent.json").read_text()), json.loads(
            (self._folder / "received.json").read_text()
        )

    def end(self) -> None:
        hang_up(self._producer, self._consumer)
        self._stack.close()

    def _await_group(self, running: Running) -> None:
        from confluent_kafka import ConsumerGroupState, KafkaException
        from confluent_kafka.admin import AdminClient

        admin, deadline = (
            AdminClient({"bootstrap.servers": self.places.brokers, "log_level": 0}),
            time.monotonic() + READY_WITHIN,
        )
        while time.monotonic() < deadline and running.process.poll() is None:
            with contextlib.suppress(KafkaException):  # the group has no coordinator yet
                group = admin.describe_consumer_groups([self.places.group])[self.places.group].result()
                if group.state == ConsumerGroupState.STABLE and len(group.members) >= self._members:
                    return
            time.sleep(0.1)
        raise Failed(f"the system's consumers were not there in time:\n{running.tail()}")

    def _outside(
        self, role: str, name: str, report: str, *more: str
    ) -> tuple["subprocess.Popen[bytes]", str]:
        more = ("--brokers", self.places.brokers, "--topic", name, *more)
        return outside("kafka_outside", role, self._folder / f"{report}.json", *more, stdin=subprocess.PIPE)
