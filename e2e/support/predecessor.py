"""The release before: its chart and its image, out of the history.

Does not: make its image (e2e/image/build-predecessor does, from the same commit).
"""

import io
import os
import subprocess
import tarfile
from pathlib import Path

from e2e.support.installation import CHART, ROOT, Release

IMAGE = os.environ.get("E2E_PREDECESSOR_IMAGE", "")
"""Its name; "": there is none."""
COMMIT = (ROOT / "e2e" / "image" / "predecessor").read_text().strip()
"""The last one whose jobs had one leader, and that had no page of all jobs."""
UNKNOWN = ("operator.shards", "ui")
"""Today's values that its chart does not take."""


def predecessor(folder: Path) -> Release:
    """Its chart, laid out in `folder`. Raises CalledProcessError where the history does not reach so far."""
    chart = CHART.relative_to(ROOT)  # a link leads from it to the definitions
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", COMMIT, str(chart), "crds"],
        capture_output=True,
        check=True,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return Release(folder / chart, IMAGE, UNKNOWN)
