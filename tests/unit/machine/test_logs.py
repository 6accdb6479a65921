"""Every process of ours writes the same log lines."""

import json
import logging
import subprocess
import sys
from datetime import datetime

from flamestream.machine.logs import JsonLines

SAYS = (
    "import logging; logging.getLogger('a.b').warning('worker says', extra={'said': 'Sealed', 'job': 'n.j'})"
)
WORKER = "from flamestream.machine.process_shell import begin; begin(0); "
OPERATOR = "from flamestream_operator import logs; logs.begin(); "


def line_of(program: str) -> dict[str, str]:
    """The only line that a process logs."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    return dict(json.loads(done.stderr))


def test_a_worker_and_the_operator_write_the_same_line() -> None:
    worker, operator = line_of(WORKER + SAYS), line_of(OPERATOR + SAYS)
    assert datetime.fromisoformat(worker.pop("at")) and datetime.fromisoformat(operator.pop("at"))
    assert (
        worker
        == operator
        == {"level": "warning", "logger": "a.b", "event": "worker says", "said": "Sealed", "job": "n.j"}
    )


def test_who_a_process_is_stands_in_all_its_lines_and_a_traceback_beside_the_event() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        record = logging.getLogger("a").makeRecord(
            "a", logging.ERROR, "f.py", 1, "%s went wrong", ("it",), sys.exc_info()
        )
    line = json.loads(JsonLines({"job": "j", "role": "worker"}).format(record))
    assert (line["event"], line["job"], line["role"]) == ("it went wrong", "j", "worker")
    assert line["traceback"].endswith("ValueError: wrong")
