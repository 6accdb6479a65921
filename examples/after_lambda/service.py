"""A service to try calls against: a price or a country, given once for one id; and it can be as services are.

    python examples/after_lambda/service.py 8008
    python examples/after_lambda/service.py 8008 --log asked.jsonl --faults late=0.02,never=0.01 --seed 7

`GET /price/ITEM` (cents) and `GET /country/ITEM` (two letters) with an `Idempotency-Key` are answered in
JSON, by chance, and the same again to who asks again with the key. `GET /effects` has item and answer by key.
`POST /forget` loses all keys, as a table does whose rows are kept for a day: who asks again has another
effect. With a log the service survives its own death: what it does is a line there before anybody is told.

| fault    | what it does, when it has done what it was asked for             |
|----------|------------------------------------------------------------------|
| `late`   | answers after 0.1 to 0.6 s                                       |
| `never`  | answers nothing, and hangs up after two seconds                  |
| `twice`  | sends its answer twice: the second one meets the next request    |
| `short`  | hangs up in the middle of its answer                             |
| `error`  | answers with status 500                                          |
| `broken` | answers with what is no JSON                                     |
| `other`  | answers with JSON of another type                                |
| `again`  | before all that: does it once more, though it knows the key      |

Which request meets which fault is drawn from the seed, the key and how often it was asked: the same in every
run. It uses nothing of FlameStream, nor anything beside Python.
"""

import argparse
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FAULTS = ("late", "never", "twice", "short", "error", "broken", "other", "again")
COUNTRIES = ("AT", "CH", "DE", "FR", "IT", "PL")
CHANCE = random.SystemRandom()
GIVES = {"price": lambda: CHANCE.randrange(100, 1_000_000), "country": lambda: CHANCE.choice(COUNTRIES)}
BREATH, LATEST, HANGS = 0.01, 0.6, 2.0
"""Seconds between an answer and its double, until a late one, and before it hangs up on who gets none."""


class Memory:
    """What it did, by key, and how often it was asked with each."""

    def __init__(self, log: Path | None, faults: Mapping[str, float], seed: int) -> None:
        self.effects: dict[str, tuple[str, Any]] = {}
        self._asked: Counter[str] = Counter()
        self._faults, self._seed = faults, seed
        self._lock = threading.Lock()
        for line in log.read_text().splitlines() if log is not None and log.exists() else ():
            self._remember(json.loads(line))
        self._log = log.open("ab", buffering=0) if log is not None else None

    def take(self, key: str, what: str, item: str) -> tuple[Any, str]:
        """Do what is asked for, if it is not done. What it gives, and the fault that this request meets."""
        with self._lock:
            fault = self._fault(key)
            did = key not in self.effects or fault == "again"
            gave = GIVES[what]() if did else self.effects[key][1]
            self._write({"key": key, "item": item, "gave": gave, "did": did, "fault": fault})
            return gave, fault

    def forget(self) -> None:
        """Lose every key."""
        with self._lock:
            self._write({"forgets": len(self.effects)})

    def _fault(self, key: str) -> str:
        drawn = random.Random(f"{self._seed} {key} {self._asked[key] + 1}")
        well = 1 - sum(self._faults.values())
        return drawn.choices(["", *self._faults], [well, *self._faults.values()])[0]

    def _write(self, line: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.write(json.dumps(line).encode() + b"\n")
        self._remember(line)

    def _remember(self, line: dict[str, Any]) -> None:
        if "forgets" in line:
            self.effects.clear()
            return
        self._asked[line["key"]] += 1
        if line["did"]:
            self.effects[line["key"]] = line["item"], line["gave"]


class Service(ThreadingHTTPServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], memory: Memory) -> None:
        super().__init__(address, Requests)
        self.memory = memory

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody was killed while he asked: nobody is told."""


class Requests(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together
    server: Service

    def do_GET(self) -> None:
        what, _, item = self.path[1:].partition("/")
        if what == "effects":
            self._answer(200, json.dumps(dict(self.server.memory.effects)))
            return
        key = self.headers["Idempotency-Key"]
        if what not in GIVES or not key:
            self._answer(400, json.dumps("GET /price/ITEM or /country/ITEM, with an Idempotency-Key"))
            return
        gave, fault = self.server.memory.take(key, what, item)
        self._behave(json.dumps(gave), fault)

    def do_POST(self) -> None:
        self.server.memory.forget()
        self._answer(200, json.dumps("forgotten"))

    def _behave(self, text: str, fault: str) -> None:
        if fault == "never":
            time.sleep(HANGS)
            self.close_connection = True
            return
        if fault == "late":
            time.sleep(random.uniform(0.1, LATEST))
        text = {"broken": "{", "other": '{"said": "as you like"}'}.get(fault, text)
        self._answer(500 if fault == "error" else 200, text, missing=fault == "short")
        if fault == "twice":
            time.sleep(BREATH)
            self._answer(200, text)

    def _answer(self, status: int, text: str, *, missing: bool = False) -> None:
        """With the key of the request, so that a client knows whose answer it is."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text) + missing))
        self.send_header("Idempotency-Key", self.headers["Idempotency-Key"] or "")
        self.end_headers()
        self.wfile.write(text.encode())
        self.wfile.flush()
        self.close_connection = self.close_connection or missing

    def log_message(self, *_: object) -> None:
        """The log is another one."""


def faults(text: str) -> dict[str, float]:
    """`late=0.02,never=0.01`"""
    found = {name: float(rate) for name, _, rate in (part.partition("=") for part in text.split(",") if part)}
    if not found.keys() <= set(FAULTS) or sum(found.values()) > 1:
        raise argparse.ArgumentTypeError(f"faults are {', '.join(FAULTS)}, with rates of 1 together at most")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("port", type=int, help="0: a free one")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--log", type=Path, help="where each request is a line; what is there is remembered")
    parser.add_argument("--faults", type=faults, default={}, help="how often which")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    memory = Memory(options.log, options.faults, options.seed)
    server = Service((options.host, options.port), memory)
    print(f"http://{options.host}:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
