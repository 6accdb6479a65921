"""Flink SQL: the statements of a file in one JVM, exactly once, its jars from Maven Central."""

from pathlib import Path
from typing import Final

from systems.flink import Flink, in_java

SETTINGS: Final = {
    "parallelism.default": "1",
    "pipeline.object-reuse": "true",  # no copies between chained operators
    "state.backend.type": "hashmap",  # the fastest for state that fits in memory
    "execution.checkpointing.interval": "1 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.storage": "filesystem",
    "table.local-time-zone": "UTC",
}


class FlinkSql:
    """One slot in one JVM."""

    @staticmethod
    def prepare() -> None:
        """Build the runner of scripts and copy what it runs with, once. Raises NotHere without Maven and a
        JDK."""
        Flink().prepare()

    @staticmethod
    def command(statements: Path, folder: Path, more: dict[str, str]) -> list[str]:
        """What runs the statements of a file, with more settings; `folder` gets the checkpoints."""
        given = [f"{name}={value}" for name, value in (SETTINGS | more).items()]
        checkpoints = f"execution.checkpointing.dir=file://{folder}/checkpoints"
        return in_java("Script", str(statements), *given, checkpoints)
