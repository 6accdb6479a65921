"""Controllers of others, as their own charts and manifests install them: those are in the Go modules that
e2e/image/build-go-image makes their images of.

Does not: say what they act on (test_queues.py, test_scale.py).
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.support.kube import Kube, kubectl
from support.installing import GO

KUEUE_IMAGE = os.environ.get("E2E_KUEUE_IMAGE", "")
KEDA_IMAGE = os.environ.get("E2E_KEDA_IMAGE", "")
"""Their names; "": there is none."""


def _module(folder: str, path: str) -> Path:
    """Where the files of a module are, in the version that this folder's go.mod names."""
    told = json.loads(_said("go", "-C", str(GO / folder), "mod", "download", "-json", path))
    return Path(told["Dir"])


def _said(*command: str, stdin: str = "") -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()[-1500:]}"
    return done.stdout


@contextmanager
def kueue() -> Iterator[None]:
    """Kueue by its chart, with the settings that it comes with, until the block ends."""
    repository, _, tag = KUEUE_IMAGE.rpartition(":")
    manager = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
        "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "512Mi"}},
    }
    where = ("--namespace", "kueue-system")
    chart = str(_module("kueue", "sigs.k8s.io/kueue") / "charts" / "kueue")
    install = ("helm", "upgrade", "--install", "kueue", chart, *where, "--create-namespace", "--wait")
    _said(*install, "--values", "-", stdin=json.dumps({"controllerManager": {"manager": manager}}))
    try:
        yield
    finally:
        _said("helm", "uninstall", "kueue", *where, "--wait")


@contextmanager
def keda() -> Iterator[None]:
    """KEDA by its manifests, without its webhooks, until the block ends."""
    manifests = _module("keda", "github.com/kedacore/keda/v2") / "config" / "minimal"
    text = kubectl("kustomize", str(manifests)).replace(
        "imagePullPolicy: Always", "imagePullPolicy: IfNotPresent"
    )
    text = re.sub(r"ghcr\.io/kedacore/[\w-]+:\w+", KEDA_IMAGE, text)
    try:
        kubectl("apply", "--server-side", "-f", "-", stdin=text)
        for name in ("keda-operator", "keda-metrics-apiserver"):
            Kube("keda").wait_rollout("Deployment", name, 180)
        yield
    finally:
        kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text)
