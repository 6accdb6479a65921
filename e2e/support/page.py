"""The page of all jobs, as a user comes to it: tokens, a port-forward, `kubectl proxy`, and its API."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.support.installation import RELEASE, SYSTEM

VIEWER = f"{RELEASE}-viewer"


def token(account: str, namespace: str = SYSTEM) -> str:
    command = ["kubectl", "-n", namespace, "create", "token", account]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@contextmanager
def forwarded(what: str, port: int) -> Iterator[str]:
    """The address that leads there."""
    command = ["kubectl", "-n", SYSTEM, "port-forward", what, f":{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://{process.stdout.readline().split()[2]}"
        finally:
            process.kill()


@contextmanager
def proxied() -> Iterator[str]:
    """The address of the page behind `kubectl proxy`."""
    command = ["kubectl", "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            yield f"http://{address}/api/v1/namespaces/{SYSTEM}/services/{RELEASE}-ui:http/proxy"
        finally:
            process.kill()


def asked(
    address: str, path: str, shown: str, method: str = "GET", header: str = "Authorization"
) -> tuple[int, Any]:
    """Status and answer of the API. `shown` is in the header."""
    request = urllib.request.Request(f"{address}/api/v1{path}", method=method, headers={header: shown})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
