"""kubectl, as a test uses it. Every call is bounded; a failure carries what kubectl said."""

import json
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CALL_WITHIN = 120.0
POLL = 0.1


class KubectlError(Exception):
    """kubectl's own words."""


@dataclass(frozen=True)
class Kube:
    """One namespace of the cluster that KUBECONFIG names."""

    namespace: str

    def run(self, *words: str, stdin: str | None = None, within: float = CALL_WITHIN, check: bool = True) -> str:
        """Its output. Raises KubectlError."""
        command = ["kubectl", "--namespace", self.namespace, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=within, check=False)
        if check and done.returncode != 0:
            raise KubectlError(f"{' '.join(command)}: {done.stderr.strip()[-1500:]}")
        return done.stdout

    def apply(self, *things: dict[str, Any]) -> None:
        """Create or change."""
        self.run("apply", "--filename", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(things)}))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """The object, or None."""
        text = self.run("get", kind, name, "--ignore-not-found", "--output", "json")
        found: dict[str, Any] | None = json.loads(text) if text.strip() else None
        return found

    def list(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """All of a kind here."""
        found: list[dict[str, Any]] = json.loads(self.run("get", kind, "--selector", selector, "--output", "json"))["items"]
        return found

    def watch(
        self, kind: str, selector: str, columns: dict[str, str], enough: Callable[[dict[str, dict[str, str]]], bool], within: float
    ) -> None:
        """Until what is there, by name and column, is `enough`. One process: asking all the time takes a processor from what is watched."""
        shown = "custom-columns=" + ",".join(f"{name}:{path}" for name, path in {"NAME": ".metadata.name", **columns}.items())
        words = ["get", kind, "--selector", selector, "--watch", "--no-headers", "--output", shown]
        there: dict[str, dict[str, str]] = {}
        with subprocess.Popen(["kubectl", "--namespace", self.namespace, *words], stdout=subprocess.PIPE, text=True) as process:
            end = threading.Timer(within, process.kill)
            end.start()
            try:
                for line in process.stdout or ():
                    name, *values = line.split()
                    there[name] = dict(zip(columns, values, strict=True))
                    if enough(there):
                        return
            finally:
                end.cancel()
                process.kill()
        raise AssertionError(f"not within {within:g} s: {there}")

    def execute(self, pod: str, *command: str, container: str | None = None, within: float = CALL_WITHIN, check: bool = True) -> str:
        """In a container."""
        chosen = ["--container", container] if container else []
        return self.run("exec", pod, *chosen, "--", *command, within=within, check=check)

    def ask(self, pod: str, path: str, within: float = CALL_WITHIN) -> Any:
        """GET of port 7003 in a pod, from inside it: works on every cluster."""
        code = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:7003{path}', timeout={within}).read().decode())"
        return json.loads(self.execute(pod, "python3", "-c", code, within=within + 10))

    def delete(self, *words: str) -> None:
        """Absent is fine."""
        self.run("delete", *words, "--ignore-not-found")


def until(what: str, seen: Callable[[], Any], within: float, poll: float = POLL) -> Any:
    """Wait for something true, and give it."""
    deadline = time.monotonic() + within
    while not (found := seen()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(poll)
    return found
