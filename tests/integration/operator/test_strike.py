"""A strike inside a pod says what it saw of the process that it struck. Needs root and `unshare`: it sees a
/proc of its own only."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare"
)
INSIDE = """
import json, os, signal, subprocess, sys, time
from flamestream_operator.drills import strike

DAEMON = "import os, time; os.fork(); time.sleep(100)"
roots = []

def daemon():
    made = subprocess.Popen([sys.executable, "-c", DAEMON, "flamestream.spark.streaming." + "daemon"])  # not in the words of this process
    roots.append(made)
    deadline = time.monotonic() + 90
    while not strike.victims("worker") and time.monotonic() < deadline: time.sleep(0.01)
    return made.pid, strike.victims("worker")[0]

def struck(*words):
    done = subprocess.run([sys.executable, "-m", "flamestream_operator.drills.strike", *words], capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)

def states(*pids):
    return [strike.state(pid) for pid in pids]

def until(good):
    deadline = time.monotonic() + 90
    while not good() and time.monotonic() < deadline: time.sleep(0.01)
    return good()

told = {}
PLAY
for root in roots: root.kill()
print(json.dumps(told))
"""  # noqa: E501


def played(play: str) -> Any:
    """What the script says that is the first process of its own pid namespace."""
    command = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
        "-c",
        INSIDE.replace("PLAY", play),
    ]
    folders = [str(Path(__file__).parents[3] / part) for part in ("runtime", "operator")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_worker_is_killed_and_seen_gone_and_its_daemon_lives() -> None:
    told = played("""
daemon, worker = daemon()
told["answer"], told["worker"] = struck("worker", "kill"), worker
told["states"] = states(worker, daemon)
""")
    assert told["answer"] == [0, {"pids": [told["worker"]], "seen": "gone"}]
    assert told["states"][0] in ("", "Z") and told["states"][1] == "S"


def test_a_daemon_is_killed_and_its_worker_lives() -> None:
    told = played("""
daemon, worker = daemon()
told["answer"], told["daemon"] = struck("daemon", "kill"), daemon
told["states"] = states(daemon, worker)
os.kill(worker, signal.SIGKILL)
""")
    assert told["answer"] == [0, {"pids": [told["daemon"]], "seen": "gone"}]
    assert told["states"] == ["Z", "S"]


def test_a_paused_worker_is_seen_standing_still_and_goes_on() -> None:
    told = played("""
daemon, worker = daemon()
told["answer"], told["worker"] = struck("worker", "pause", "0.5"), worker
told["still"] = states(worker)
told["goes"] = until(lambda: states(worker) == ["S"])
os.kill(worker, signal.SIGKILL)
""")
    assert told["answer"] == [0, {"pids": [told["worker"]], "seen": "paused"}]
    assert (told["still"], told["goes"]) == (["T"], True)


def test_a_pods_pause_stops_everything_but_its_first_process_which_nobody_inside_can_stop() -> None:
    told = played("""
daemon, worker = daemon()
code, answer = struck("pod", "pause", "0.5")
told["answer"] = [code, answer.get("seen"), sorted(answer["pids"]) == sorted([daemon, worker])]
told["still"] = states(daemon, worker)
told["goes"] = until(lambda: states(daemon, worker) == ["S", "S"])
os.kill(worker, signal.SIGKILL)
""")
    assert told["answer"] == [0, "paused", True]
    assert (told["still"], told["goes"]) == (["T", "T"], True)


@pytest.mark.parametrize(
    "words", [["worker", "kill"], ["daemon", "kill"], ["worker", "pause", "1"], ["pod", "pause", "1"]]
)
def test_nothing_to_strike_is_a_problem_that_says_so(words: list[str]) -> None:
    code, answer = played(f"told = struck(*{words})")
    assert code == 3 and "there is no" in answer["problem"]


def test_a_signal_that_has_no_effect_is_not_a_fault() -> None:
    """To the first process the kernel lets nothing through from inside."""
    told = played("""
strike.SEEN_WITHIN = 0.3
told["killed"], told["paused"] = strike.killed([1]), strike.paused([1], 0.1)
""")
    assert told == {"killed": False, "paused": False}
