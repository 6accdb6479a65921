"""A real API server: Kubernetes' own and etcd, one program from Go modules, built once into the checkout's
`.cache`.

Nothing else of a cluster is there: no controllers, no scheduler, no node. So an object stays as it was
written, and a pod runs only if support/operator/kubelet.py runs it. Where go is missing the tests that need
it are skipped, and say so. Modules, their versions and hashes are in the `go.mod` and `go.sum` beside this
file; a build from nothing takes minutes (docs/authors/dependencies.md), the next is a look at a file.

`python -m support.api_server` builds it, so that no test has to wait for that.
"""

import faulthandler
import hashlib
import os
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from support.eventually import eventually
from support.installing import CACHE, go_command, one_at_a_time
from support.ports import free_port

HERE = Path(__file__).parent
SOURCES = [HERE / name for name in ("go.mod", "go.sum", "main.go")]
SECONDS = 2400
"""For a build on a cold, busy machine."""
TOKEN = "the-tests-own"
OPERATORS = "the-operators-own"
OPERATOR = "system:serviceaccount:space:release-operator"
"""The account that the chart makes, as support/helm.py renders it: it has the rights that a test gives it."""
AUDIT = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{{level: Metadata, users: ["{OPERATOR}"]}}, {{level: None}}]
"""
STRANGER = "a-stranger-s"
"""Of somebody who may do nothing."""


def binary() -> Path:
    """The program, built if need be."""
    found = (
        CACHE
        / "bin"
        / f"apiserver-{hashlib.sha256(b''.join(file.read_bytes() for file in SOURCES)).hexdigest()[:12]}"
    )
    if not found.exists():
        faulthandler.cancel_dump_traceback_later()  # longer than a test may take
        found.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time():
            if not found.exists():
                _build(found)
    return found


def _build(target: Path) -> None:
    if (go := go_command()) is None:
        pytest.skip("no API server: install go to have kube-apiserver and etcd built")
    version = next(
        line.split()[1]
        for line in SOURCES[0].read_text().splitlines()
        if line.strip().startswith("k8s.io/kubernetes v")
    )
    named = " ".join(
        f"-X k8s.io/{each}/version.gitVersion={version}" for each in ("component-base", "client-go/pkg")
    )
    fresh = target.with_name(f"building-{os.getpid()}")
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw -mod=readonly".strip(),
    }
    command = [go, "build", "-trimpath", "-ldflags", f"-s -w {named}", "-o", str(fresh), "."]
    done = subprocess.run(
        command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        pytest.skip(f"no API server: building it failed: {done.stderr.strip()[-500:]}")
    os.replace(fresh, target)


class ApiServer:
    """One with an etcd of its own, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._processes = folder, list[subprocess.Popen[bytes]]()
        self._port = free_port()
        self.kubeconfig = folder / "kubeconfig"
        self.audit_log = folder / "audit.log"
        """What the operator's account has asked for, a line of JSON each."""

    def start(self) -> None:
        """Back when it is ready."""
        program, folder, (client, peer) = str(binary()), self._folder, (free_port(), free_port())
        subprocess.run([program, "key", str(folder / "key")], check=True)
        (folder / "tokens").write_text(
            f'{TOKEN},tests,tests,"system:masters"\n{OPERATORS},{OPERATOR},operator,"system:serviceaccounts"\n{STRANGER},stranger,stranger\n'
        )
        (folder / "audit.yaml").write_text(AUDIT)
        of_etcd = {
            "data-dir": folder / "etcd", "listen-client-urls": f"http://127.0.0.1:{client}",
            "advertise-client-urls": f"http://127.0.0.1:{client}",
            "listen-peer-urls": f"http://127.0.0.1:{peer}",
            "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
            "initial-cluster": f"default=http://127.0.0.1:{peer}", "unsafe-no-fsync": "true",
        }  # fmt: skip
        of_server = {
            "etcd-servers": f"http://127.0.0.1:{client}", "bind-address": "127.0.0.1",
            "secure-port": self._port, "cert-dir": folder / "certificates",
            "token-auth-file": folder / "tokens", "authorization-mode": "RBAC",
            "audit-policy-file": folder / "audit.yaml", "audit-log-path": self.audit_log,
            "audit-log-mode": "blocking", "service-account-issuer": "https://tests",
            "service-account-key-file": folder / "key", "service-account-signing-key-file": folder / "key",
            "service-cluster-ip-range": "10.0.0.0/24",
        }  # fmt: skip
        for name, flags in (("etcd", of_etcd), ("kube-apiserver", of_server)):
            command = [program, name, *(f"--{flag}={value}" for flag, value in flags.items())]
            with open(folder / f"{name}.log", "wb") as log:
                self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        eventually(self._is_ready, "the API server is ready", within=120)
        self.kubeconfig.write_text(yaml.safe_dump(self._config()))

    def stop(self) -> None:
        """With all that was in it."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def _is_ready(self) -> bool:
        assert all(process.poll() is None for process in self._processes), (
            f"one has ended: see {self._folder}/*.log"
        )
        request = urllib.request.Request(
            f"https://127.0.0.1:{self._port}/readyz", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        try:
            with urllib.request.urlopen(
                request, context=ssl._create_unverified_context(), timeout=5
            ) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            error.close()
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            pass
        return False

    def _config(self) -> dict[str, object]:
        # it has signed for itself
        cluster = {"server": f"https://127.0.0.1:{self._port}", "insecure-skip-tls-verify": True}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [
                {"name": "tests", "user": {"token": TOKEN}},
                {"name": "operator", "user": {"token": OPERATORS}},
            ],
            "contexts": [
                {"name": name, "context": {"cluster": "tests", "user": name}}
                for name in ("tests", "operator")
            ],
        }
