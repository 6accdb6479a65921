"""The chart, rendered by helm: Debian does not have it, but it is a Go module, built once into the checkout's
`.cache`."""

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from support.installing import ROOT, by_go

KUBERNETES = "1.34.0"
CHART = ROOT / "charts" / "flamestream"


class Refused(Exception):
    """The chart does not take these values; the message is helm's."""


def binary() -> Path:
    """helm's executable, built if need be (minutes, once)."""
    given = shutil.which("helm")
    return Path(given) if given else by_go("helm", "helm", ", or put helm on the PATH")


def rendered(values: dict[str, Any], *kinds: str) -> str:
    """All objects of a release named `release` in namespace `space`, where the API server also has these kinds
    (GROUP/VERSION/KIND). Raises Refused."""
    return _rendered(json.dumps(values, sort_keys=True), kinds)


@cache
def _rendered(values: str, kinds: tuple[str, ...]) -> str:
    command = [
        str(binary()),
        "template",
        "release",
        str(CHART),
        "--namespace",
        "space",
        "--values",
        "-",
        "--kube-version",
        KUBERNETES,
        *(f"--api-versions={kind}" for kind in kinds),
    ]
    done = subprocess.run(command, input=values, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return done.stdout
