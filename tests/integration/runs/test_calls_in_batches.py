"""A batch makes no calls: it takes the answers that a stream has kept."""

from pathlib import Path
from typing import Any

import pytest

from support.runs.cli_job import CliJob

pytestmark = pytest.mark.spark

APPLICATION = """
import os
import flamestream as fs

@fs.call
async def drawn(order: int) -> tuple[int, int, bytes]:
    return order, 7 * order, os.urandom(8)

graph = fs.Graph("draws")
orders = graph.source("orders", int)
draws = orders.call(drawn, key=lambda order: order % 5, at=lambda draw: draw[1], unit="s", late="1h")
draws.sink("drawn", key=lambda draw: draw[0])
draws.window(fs.tumbling("1m"), key=lambda draw: draw[0] % 2).collect().map(repr).sink("windows", key=len)
"""


LOOP = """
import os
import flamestream as fs

@fs.call
async def drawn(order: int) -> tuple[int, bytes]:
    return order, os.urandom(1)

graph = fs.Graph("draws")
again = graph.loop("again", max_iterations=3)
draws = graph.source("orders", int).merge(again).call(drawn)
draws.sink("drawn", key=lambda draw: draw[0])
again.close(draws.filter(lambda draw: draw[1][0] % 3 > 0).map(lambda draw: draw[0]))
draws.reduce(key=lambda draw: draw[0], combine=fs.count()).sink("windows", key=lambda count: 0)
"""


def made(folder: Path, sub: str, *, spark: bool) -> CliJob:
    """One job with places of its own, and the same orders and journal."""
    spec: dict[str, Any] = {
        "sources": {"orders": {"files": {"path": "orders.jsonl", "format": "jsonl"}}},
        "sinks": {
            name: {"files": {"path": f"{name}{sub}", "fsync": False}} for name in ("drawn", "windows", "dead")
        },
        "onError": {"deadLetter": "dead"},
        "journal": {"folder": "journal", "keep": True},
        "checkpoint": {"interval": "200ms", "store": f"store{sub}"},
    }
    return CliJob(folder, folder / "draws.py", spec, spark=spark)


@pytest.mark.parametrize(
    ("application", "runner", "drawn"),
    [
        # a minute: test_frames_transactions.py has a batch of kept answers at each push
        pytest.param(APPLICATION, "batch", range(100, 101), marks=pytest.mark.slow),
        pytest.param(LOOP, "batch", range(150, 401), marks=pytest.mark.slow),
        pytest.param(LOOP, "micro-batch", range(150, 401), marks=pytest.mark.slow),
    ],
    ids=["batch", "loop", "loop in micro-batches"],
)
def test_a_batch_makes_of_kept_answers_what_the_stream_made(
    tmp_path: Path, application: str, runner: str, drawn: range
) -> None:
    (tmp_path / "draws.py").write_text(application)
    (tmp_path / "orders.jsonl").write_text("".join(f"{number}\n" for number in range(100)))
    stream = made(tmp_path, "", spark=False)
    stream.start()
    assert stream.end()[1]["outcome"] == "completed"
    again = made(tmp_path, "-again", spark=True)
    folder = str(tmp_path / "run-again")
    code, answer = again.ask("run", str(again.manifest), "--runner", runner, "--run-folder", folder)
    assert code == 0, answer
    assert len(again.delivered("drawn")) in drawn
    for sink in ("drawn", "windows", "dead"):
        assert again.delivered(sink) == stream.delivered(sink)
    assert bool(again.delivered("dead")) == (application is LOOP), "some go round too often"
