"""A bank that really runs, whose workers are killed: what its producers and its readers have seen is one history, and
porcupine finds an order for it."""

import http.client
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from random import Random
from typing import Literal

import flamestream as fs
from flamestream.live.client import Job
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.decoding import from_json
from support.eventually import eventually
from support.histories.history import Operation, Outcome, Put, Transfer, verdict
from support.http.events import EventSource
from support.ports import free_port
from support.runs.scratch import Scratch

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("bank")
accounts = graph.table("accounts", initial=int, check=lambda key, balance: balance >= 0)


def transfer(state, line):
    number, source, target, amount = line.split()
    if source == "+":
        state[accounts, target] = int(amount)
        return number, "committed", 0
    state[accounts, source] -= int(amount)
    state[accounts, target] += int(amount)
    return number, "committed", state[accounts, source]


moved = graph.source("lines").transact(transfer)
refused = moved.aborted.map(lambda aborted: (aborted.transaction.split()[0], "refused", 0))
moved.committed.merge(refused).sink("receipts")
"""
NAMES = "abcde"
KILLS = 3
At = Literal["strict", "stale"]


class Receipts(EventSource):
    """When each receipt was seen first, its outcome, and what is left."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.seen: dict[str, tuple[int, Outcome, int]] = {}

    def _event(self, block: str) -> None:
        super()._event(block)
        if self.data:
            number, outcome, left = self.data[-1]
            self.seen.setdefault(number, (time.monotonic_ns(), outcome, left))


class Recorder:
    """A bank that runs, and its history."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch, self.lines, self.queries = scratch, free_port(), free_port()
        self.receipts = Receipts(events := free_port())
        scratch.job(
            APPLICATION,
            f'sources: {{lines: {{http: {{listen: "127.0.0.1:{self.lines}", keys: keys, records: lines}}}}}}',
            f'sinks: {{receipts: {{events: {{path: receipts, listen: "127.0.0.1:{events}"}}}}}}',
            "journal: {folder: journal}",
            f'queries: {{listen: "127.0.0.1:{self.queries}", share: 1.0}}',
            "workers: {replicas: 2, standby: 1}",
            "checkpoint: {interval: 200ms, store: snapshots}",
        )
        scratch.begin("run", "job.yaml", "--no-spark")
        self.over, self.clients = threading.Event(), list[Job]()
        self.history: list[Operation] = []
        self.taken = Counter[str]()
        """How many transfers of each producer have been acknowledged."""
        self.problems: list[BaseException] = []

    def client(self) -> Job:
        """It is closed with the recorder."""
        self.clients.append(fs.connect(f"http://127.0.0.1:{self.queries}/v1/jobs/job", timeout=60))
        return self.clients[-1]

    def ends(self, threads: list[threading.Thread]) -> None:
        """Nobody asks any more."""
        self.over.set()
        for thread in threads:
            thread.join(120)
        for client in self.clients:
            client.close()

    def beside(self, turn: Callable[[], None]) -> threading.Thread:
        """Take turns in a thread, until it is over."""

        def run() -> None:
            try:
                while not self.over.is_set():
                    turn()
            except BaseException as error:
                self.problems.append(error)
                raise

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def has(self, operations: int) -> bool:
        """Whether so much has happened; or something that may not."""
        return bool(self.problems) or len(self.history) >= operations

    def kill(self, turn: int) -> None:
        """One worker."""
        folder = self.scratch.path / ".flamestream" / "job" / "workers"
        known = [from_json(file.read_bytes(), ProcessIdentity) for file in folder.glob("*.json")]
        living = sorted(each.pid for each in known if each.alive)
        os.kill(living[turn % len(living)], signal.SIGKILL)

    def post(self, line: str) -> int:
        """Send it until it is taken. The time that was told; 0: none."""
        while True:
            with (
                closing(http.client.HTTPConnection("127.0.0.1", self.lines, timeout=10)) as to,
                suppress(OSError, http.client.HTTPException),
            ):
                to.request("POST", "/", line, {"Idempotency-Key": line.split(maxsplit=1)[0]})
                answer = to.getresponse()
                said = answer.read()
                if answer.status == http.HTTPStatus.OK:
                    return int(json.loads(said).get("time", 0))
            time.sleep(0.02)


class Producer:
    """Sends one transfer after the other, each behind the receipt of the last, and asks for what it has paid from."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder, self.name, self.job = recorder, name, recorder.client()
        self.rng, self.sent = Random(name), 0

    def turn(self) -> None:
        recorder, rng = self.recorder, self.rng
        put = self.sent == 0 or rng.random() < 0.1
        source, target = ("+", rng.choice(NAMES)) if put else rng.sample(NAMES, 2)
        number, amount, before = f"{self.name}-{self.sent}", rng.randrange(30), dict(recorder.taken)
        call = time.monotonic_ns()
        told = recorder.post(f"{number} {source} {target} {amount}")
        self.sent += 1
        recorder.taken[self.name] += 1
        eventually(lambda: number in recorder.receipts.seen, f"a receipt of {number}", within=60)
        back, outcome, left = recorder.receipts.seen[number]
        moves, puts = (None, Put(target, amount)) if put else (Transfer(source, target, amount), None)
        recorder.history.append(
            Operation(
                call,
                back,
                self.name,
                before,
                moves=moves,
                puts=puts,
                outcome="" if put else outcome,
                left=left,
            )
        )
        if told:
            answer = self.job.read(("accounts", target), at="stale", at_least=told)
            reads = {target: _balance(answer.states[0])}
            needs = {self.name: self.sent}
            recorder.history.append(Operation(0, time.monotonic_ns(), "own", needs, reads=reads))


class Reader:
    """Asks for some accounts, strictly or not."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder, self.name, self.job = recorder, name, recorder.client()
        self.rng, self.asked = Random(name), 0

    def turn(self) -> None:
        at: At = self.rng.choice(["strict", "stale"])
        names = self.rng.sample(NAMES, self.rng.choice([1, 2, 5]))
        call = time.monotonic_ns()
        answer = self.job.read(*(("accounts", name) for name in names), at=at)
        back = time.monotonic_ns()
        reads = {name: _balance(state) for name, state in zip(names, answer.states, strict=True)}
        # a client never goes back behind what it has seen
        needs = {self.name: self.asked}
        self.recorder.history.append(
            Operation(call if at == "strict" else 0, back, self.name, needs, reads=reads)
        )
        self.asked += 1
        time.sleep(0.02)


def _balance(state: object) -> int:
    """Nobody has written it: the table's `initial`."""
    return state if isinstance(state, int) else 0


def test_what_was_seen_of_a_bank_whose_workers_die_has_one_order(scratch: Scratch) -> None:
    recorder = Recorder(scratch)
    recorder.post("begin + a 0")
    with recorder.receipts:
        turns = [Producer(recorder, name).turn for name in ("one", "two", "three")]
        turns += [Reader(recorder, name).turn for name in ("eve", "ann")]
        threads = [recorder.beside(turn) for turn in turns]
        for kill in range(KILLS + 1):
            more = partial(recorder.has, len(recorder.history) + 100)
            eventually(more, "more has happened", within=120)
            if kill < KILLS:
                recorder.kill(kill)
        recorder.ends(threads)
    assert not recorder.problems
    outcomes = Counter(operation.outcome for operation in recorder.history)
    assert min(outcomes["committed"], outcomes["refused"]) > 10, outcomes
    said = verdict(recorder.history)
    assert said.word == "Ok", said
    _with_a_read_of_before(recorder.history)


def _with_a_read_of_before(history: list[Operation]) -> None:
    """The same is refused, once a strict answer has what was there before."""
    damaged = sorted(history, key=lambda each: each.back or 0)
    reads = [place for place, each in enumerate(damaged) if each.call and len(each.reads) == len(NAMES)]
    first, last = damaged[reads[0]], reads[-1]
    assert first.reads != damaged[last].reads
    damaged[last] = Operation(damaged[last].call, damaged[last].back, reads=first.reads)
    assert verdict(damaged).word == "Illegal"
