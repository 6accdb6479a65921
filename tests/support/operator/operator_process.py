"""The operator's process, under the account that the chart makes for it, on a machine without a name service."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import yaml

from flamestream_operator.objects.meta import Object
from support.api_server import TOKEN
from support.operator.plain_cluster import Places
from support.operator.real_cluster import VARIABLE
from support.ports import free_port

OWN, SERVICE, LEASE = "space", "release-coordinators", "flamestream-operator"
"""The namespace that support/helm.py renders for, and what stands in it."""
_NONE: Mapping[str, str] = {}


class Process:
    """One replica. Its address in the cluster is nobody's, its ports are of this machine."""

    def __init__(
        self,
        places: Places,
        number: int = 1,
        *,
        shards: int = 1,
        seconds: int = 30,
        more: Mapping[str, str] = _NONE,
    ) -> None:
        """`seconds`: of its Lease. `more`: of its environment."""
        self.name, self.port, self._http = f"operator-{number}", free_port(), free_port()
        config = yaml.safe_load(Path(os.environ[VARIABLE]).read_text())
        kubeconfig, login, authority = (
            places.folder / f"operators-{name}" for name in ("kubeconfig", "login", "authority")
        )
        kubeconfig.write_text(yaml.safe_dump(config | {"current-context": "operator"}))
        login.write_text(places.zookeeper.access.login)
        authority.write_text(places.zookeeper.access.authority)
        self._log = places.folder / f"{self.name}.log"
        self._told = {
            "KUBECONFIG": str(kubeconfig), "PYTHONPATH": os.pathsep.join(sys.path),
            "POD_NAME": self.name, "POD_NAMESPACE": OWN, "POD_IP": f"10.9.9.{number}",
            "FLAMESTREAM_ZOOKEEPER": places.zookeeper.access.hosts, "FLAMESTREAM_IMAGE": "flamestream:1",
            "FLAMESTREAM_ZOOKEEPER_LOGIN": str(login), "FLAMESTREAM_ZOOKEEPER_AUTHORITY": str(authority),
            "FLAMESTREAM_IMAGE_PULL_POLICY": "Never", "FLAMESTREAM_DRILLS": "true",
            "FLAMESTREAM_PORT": str(self.port), "FLAMESTREAM_HTTP_PORT": str(self._http),
            "FLAMESTREAM_SHARDS": str(shards), "FLAMESTREAM_LEASE": LEASE,
            "FLAMESTREAM_LEASE_SECONDS": str(seconds), "FLAMESTREAM_SERVICE": SERVICE,
            "FLAMESTREAM_ALLOW": json.dumps({"storeEndpoints": [places.s3.endpoint]}),
            **more,
        }  # fmt: skip

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "flamestream_operator"],
                env=os.environ | self._told,
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        """As when its pod is removed: it gives the Lease back."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=60)

    def kill(self) -> str:
        """Its last words."""
        self._process.kill()
        self._process.wait()
        return self.said()[-3000:]

    def said(self) -> str:
        return self._log.read_text()

    def attempts(self) -> dict[str, int]:
        """The attempts of the jobs whose workers it is connected to, by its own figures."""
        try:
            answer = httpx2.get(
                f"http://127.0.0.1:{self._http}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=5
            )  # fmt: skip
        except httpx2.TransportError:  # it does not listen yet, or not any more
            return {}
        workers, attempts = (
            _by_job(answer.text, name)
            for name in (
                'flamestream_job_workers{job="JOB",role="layout"}',
                'flamestream_job_attempt{job="JOB"}',
            )
        )
        return {job: attempts[job] for job, count in workers.items() if count}


def _by_job(text: str, series: str) -> dict[str, int]:
    before, _, after = series.partition("JOB")
    return {
        line.removeprefix(before).partition('"')[0]: int(float(line.rpartition(" ")[2]))
        for line in text.splitlines()
        if line.startswith(before) and line.rpartition(" ")[0].endswith(after)
    }


def names_of(slices: list[Object]) -> dict[str, Any]:
    """What a name service and the network behind it would make of the coordinators' Services: the ports of leaders on
    this machine, by name."""
    return {
        f"{each['metadata']['name']}.{OWN}.svc": ("127.0.0.1", each["ports"][0]["port"]) for each in slices
    }
