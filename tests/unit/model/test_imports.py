"""What every process of a job waits for when it starts: no client that few of them use."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["flamestream", "flamestream.node.calls.process"])
def test_clients_are_imported_when_they_are_asked_for(module: str) -> None:
    text = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    there = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "flamestream" in there
    assert {"httpx2", "h2", "psycopg", "psycopg_pool", "redis"}.isdisjoint(there)
