"""What tools of others say of a job's object: kstatus (Flux and kpt wait by it), and Argo CD's health, whose script
is run by a Lua of its version."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from support.helm import CHART
from support.installing import by_go, install, one_at_a_time

HEALTH = CHART / "gitops" / "health.lua"


def kstatus(job: dict[str, Any]) -> str:
    """Current, InProgress, Failed or Terminating."""
    command = [str(by_go("kstatus", "kstatus"))]
    done = subprocess.run(
        command, input=json.dumps(job), capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def argo(job: dict[str, Any]) -> tuple[str, str]:
    """Healthy, Progressing, Degraded or Suspended, and the message."""
    script = (
        f"obj = {_lua(job)}\nlocal function health()\n{HEALTH.read_text()}\nend\nlocal found = health()\n"
    )
    script += 'io.write(found.status, "\\n", found.message)'
    done = subprocess.run(
        [_binary(), "-"], input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    status, _, message = done.stdout.partition("\n")
    return status, message


def argo_cd(settings: dict[str, Any], job: dict[str, Any]) -> tuple[str, str]:
    """The same by Argo CD's own code, with these settings: its ConfigMap argocd-cm. It takes minutes to build."""
    command = [str(by_go("argo", "Argo CD"))]
    lines = f"{json.dumps(settings)}\n{json.dumps(job)}\n"
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    return said["status"], said.get("message", "")


def _binary() -> str:
    with one_at_a_time():
        if not shutil.which("lua5.1"):
            install("lua5.1")
    if not (found := shutil.which("lua5.1")):
        pytest.skip("no Lua: install Debian's lua5.1")
    return found


def _lua(value: Any) -> str:
    """A value of JSON as Lua has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"[{_lua(name)}] = {_lua(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ", ".join(map(_lua, value)) + "}"
    if isinstance(value, str):
        return '"' + "".join(f"\\{byte:03}" for byte in value.encode()) + '"'
    return "nil" if value is None else json.dumps(value)
