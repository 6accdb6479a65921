"""An installation without the native kernel runs the same jobs."""

import subprocess
import sys
from pathlib import Path

from flamestream.testing import simulate

RUNTIME = Path(__file__).parents[3] / "runtime"
PROGRAM = f"""
import sys
sys.modules["flamestream._kernel"] = None
sys.path.insert(0, {str(RUNTIME)!r})
import flamestream as fs
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.model.payloads import codec
from flamestream.model.payloads import encoding
from flamestream.testing import simulate
assert FASTEST is REFERENCE
assert codec.encode is encoding.encode
assert list(fs.Vector([1]).append(2)) == [1, 2]
print([simulate(seed).trace_hash for seed in range(12)])
"""


def test_the_python_parts_do_all_of_its_work() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == str([simulate(seed).trace_hash for seed in range(12)])
