"""One installation a session, one namespace and one job a module; every figure is also written to
E2E_REPORT."""

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness.machine import where

from e2e.support.installation import Installation, install
from e2e.support.kube import Kube
from e2e.support.stream import Stream

REPORT = Path(os.environ.get("E2E_REPORT", "e2e-report.jsonl"))


@pytest.fixture(scope="session")
def namespace() -> Iterator[str]:
    name = os.environ.get("E2E_NAMESPACE") or f"e2e-{uuid.uuid4().hex[:6]}"
    kube = Kube(name)
    kube.make_namespace()
    yield name
    if not os.environ.get("E2E_KEEP"):
        kube.unmake_namespace()


@pytest.fixture(scope="session")
def installation(namespace: str) -> Installation:
    return install(namespace)


@pytest.fixture(scope="session")
def kube(namespace: str) -> Kube:
    return Kube(namespace)


@pytest.fixture(scope="session")
def report() -> Callable[..., None]:
    """Adds a row of figures, with the load that they were taken at, as those of benchmarks/results are."""

    def add(what: str, **figures: Any) -> None:
        row = {"what": what, **figures, "load": round(os.getloadavg()[0], 1), **where()}
        with REPORT.open("a") as file:
            file.write(json.dumps(row) + "\n")

    return add


def fresh() -> str:
    """A name that no job has had."""
    return f"index-{uuid.uuid4().hex[:6]}"


@contextmanager
def flowing(made: Stream, ready_within: float = 120) -> Iterator[Stream]:
    """With the stream's job, which gets 20 documents a second, until the block ends."""
    try:
        made.prepare()
        made.apply()
        made.wait_ready(ready_within)
        made.send(20, 1_000_000)
        made.wait_flowing()
        yield made
    finally:
        if not os.environ.get("E2E_KEEP"):
            made.delete()


@pytest.fixture(scope="module")
def stream(installation: Installation, kube: Kube) -> Iterator[Stream]:
    """A job of two workers and a standby that gets 20 documents a second, until the module's end."""
    # state outlives a job's object: a new stream is a new job
    with flowing(Stream(kube, installation, words=60, name=fresh())) as made:
        yield made
