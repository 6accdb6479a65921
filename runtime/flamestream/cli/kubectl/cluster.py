"""kubectl, called: so context, credentials and namespaces are what the user has set up, and nothing else has
to be installed.

Keeps: what kubectl says when it fails is said on. Does not: know FlameStream's objects but by name.
"""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from flamestream.model.errors import ManifestError, Retryable, UserError

Object = dict[str, Any]
TIMEOUT: Final = 60.0
GROUP: Final = "flamestream.dev"
JOB: Final = f"{GROUP}/job"
ROLE: Final = f"{GROUP}/role"
LAUNCH: Final = f"{GROUP}/launch"
ANSWERS: Final = f"{GROUP}/answers"
"""Label of the pods whose worker takes part."""


_FORWARDING: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A context and namespace of kubectl ("": the context's own)."""

    namespace: str = ""
    context: str = ""
    program: str = "kubectl"

    def arguments(self, *words: str) -> list[str]:
        """The command line."""
        if shutil.which(self.program) is None:
            raise UserError(
                f"{self.program} is not there: install it, `kubectl flamestream` works through it"
            )
        where = [
            *(["--context", self.context] if self.context else []),
            *(["-n", self.namespace] if self.namespace else []),
        ]
        return [self.program, *where, *words]

    def run(self, *words: str, given: str = "") -> str:
        """Run kubectl; its output. Raises UserError for what is not there or not allowed, Retryable for a
        cluster that does not answer."""
        command = self.arguments(*words)
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise Retryable(
                f"the cluster does not answer: {self.program} has not ended within {TIMEOUT:g} s"
            ) from late
        if done.returncode:
            raise _error(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def get(self, *words: str) -> Object:
        """`kubectl get ... -o json`."""
        found: Object = json.loads(self.run("get", *words, "-o", "json"))
        return found

    def job(self, name: str) -> Object:
        """A FlameStreamJob."""
        return self.get("flamestreamjobs.flamestream.dev", name)

    def pods(self, job: str) -> list[Object]:
        """Driver and workers."""
        found: list[Object] = self.get("pods", "-l", f"{JOB}={job},{ROLE}")["items"]
        return found

    def create(self, thing: Object) -> Object:
        """`kubectl create`."""
        made: Object = json.loads(self.run("create", "-o", "json", "-f", "-", given=json.dumps(thing)))
        return made

    def patch(self, kind: str, name: str, patch: Object) -> None:
        """A merge patch."""
        self.run("patch", kind, name, "--type", "merge", "-p", json.dumps(patch))

    def follow(self, *words: str) -> Iterator[str]:
        """Lines as they come, until kubectl ends."""
        with subprocess.Popen(self.arguments(*words), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None, "a pipe"
            yield from (line.rstrip("\n") for line in process.stdout)

    @contextmanager
    def forwarded(self, pod: str, port: int) -> Iterator[int]:
        """A port of this machine that leads to `port` in `pod`, as long as this lasts. Raises UserError for what is
        not allowed, Retryable for a pod that is gone or a cluster that does not answer."""
        command = self.arguments("port-forward", "--address", "127.0.0.1", f"pod/{pod}", f":{port}")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            late = threading.Timer(TIMEOUT, process.kill)
            late.start()
            try:
                assert process.stdout is not None, "a pipe"
                if (begun := _FORWARDING.match(process.stdout.readline())) is None:
                    process.kill()
                    raise _not_forwarded(process.communicate()[1].strip())
                late.cancel()  # it may last
                yield int(begun[1])
            finally:
                late.cancel()
                process.kill()


def _not_forwarded(said: str) -> Exception:
    error = _error(said)
    return error if "Forbidden" in said else Retryable(str(error))


def _error(said: str) -> Exception:
    last = said.splitlines()[-1] if said else "kubectl failed without a word"
    if "refused" in last or "timeout" in last.lower() or "no such host" in last:
        return Retryable(f"the cluster does not answer: {last}")
    if "Invalid value" in said or "is invalid" in said:
        return ManifestError(said)
    return UserError(last)


def condition(job: Object, kind: str) -> Object:
    """The condition of this type of a job; {} before it has any."""
    return next(
        (each for each in (job.get("status") or {}).get("conditions") or () if each["type"] == kind), {}
    )
