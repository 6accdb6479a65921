"""A job of ours in a folder: its manifest, and the command that runs it there.

Does not: say what a spec has (whoever measures does), or start anything.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def manifest_of(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The whole of a FlameStreamJob."""
    return {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def run_command(folder: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Write the manifest into the folder; the command that runs it, with everything of the run in there."""
    file = folder / "job.yaml"
    file.write_text(json.dumps(manifest))
    command = [sys.executable, "-m", "flamestream.cli.main", "run", str(file)]
    return [*command, "--run-folder", str(folder / "run")]
