"""Where and when a figure was measured: the machine, as far as figures depend on it, and the time."""

import os
import platform
import time
from pathlib import Path
from typing import Any


def where() -> dict[str, Any]:
    """The machine, and the time of now."""
    return {"machine": machine(), "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def machine() -> dict[str, Any]:
    """This one, as far as figures depend on it."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    total = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(total / 1e6, 1),
        "kernel": platform.release(),
    }


def _lines(file: str) -> list[str]:
    path = Path(file)
    return path.read_text().splitlines() if path.exists() else []
