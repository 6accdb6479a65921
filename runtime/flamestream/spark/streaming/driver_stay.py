"""A driver pod's hook before its stop: it stays while its workers may still be needed, and goes as soon as
the operator says so.

A drain deletes the pod with a long grace. Its successor starts beside it and takes over; then the operator
deletes it once more, with a grace of a second, which is what this waits for. (Kubelet shortens the grace of a
pod whose hook runs only when the hook has ended.)

Keeps: it ends after `SECONDS` at the latest, also where the API server cannot be asked. Does not: import
anything of the job; a hook must be quick to start.
"""

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from os import environ
from pathlib import Path
from typing import Final

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SCHEME: Final = "https"
PAUSE: Final = 0.5
AT_ONCE: Final = 1
"""The grace that says so (operator/flamestream_operator/jobs/observed.py)."""


def may_go(pod: dict[str, object] | None) -> bool:
    """Whether nobody needs this pod any more."""
    if pod is None:
        return True
    meta = pod["metadata"]
    assert isinstance(meta, dict)
    grace = meta.get("deletionGracePeriodSeconds")
    return grace is not None and int(grace) <= AT_ONCE


def _pod() -> dict[str, object] | None:
    """This process's pod, as the API server has it; None if it is not there any more."""
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    where = (
        f"{SCHEME}://{host}:{port}/api/v1/namespaces/{environ['POD_NAMESPACE']}/pods/{environ['POD_NAME']}"
    )
    asked = urllib.request.Request(
        where, headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    )
    try:
        with urllib.request.urlopen(
            asked, timeout=5, context=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        ) as answer:
            found: dict[str, object] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def main(seconds: float) -> int:
    """`python -m flamestream.spark.streaming.driver_stay SECONDS`"""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if may_go(_pod()):
                return 0
        # the API server is away, perhaps in the middle of its answer: who drains it cannot take over either
        except (OSError, ValueError, HTTPException) as problem:
            print(f"the API server cannot be asked: {problem}", file=sys.stderr)
        time.sleep(PAUSE)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
