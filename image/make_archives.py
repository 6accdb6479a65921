"""Makes the class-data archives of the driver's and the executors' JVM, by a session on a stand-in for the
Kubernetes API.

A class archive holds what a JVM has loaded, so it is made by doing once what a job does: a driver asks
Kubernetes for an executor, which registers, runs a Python task, and both end. The stand-in answers as an API
server would, and starts the executor that it is asked for here, by the image's own entrypoint. A JVM that
writes its archive does so when it ends.

Keeps: the image has both archives or is not made. Does not: contain anything of a job.
"""

import base64
import hashlib
import json
import os
import secrets
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from flamestream.machine.class_archive import archive_of
from flamestream.machine.java import find_java
from flamestream.spark.streaming import jvm
from flamestream.spark.streaming.jvm import class_path
from flamestream.spark.streaming.kubernetes import KubernetesSettings, kubernetes_conf
from flamestream.spark.streaming.session import SparkDriver, SparkSettings

HOME = Path("/opt/flamestream")
EXECUTOR_ARCHIVE = HOME / "executor.jsa"
NAMESPACE = "stand-in"
END_WITHIN = 150.0
WITHIN = 400
WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455 has it."""


class StandIn(ThreadingHTTPServer):
    """Pods, as far as Spark looks at them: created, listed, watched, deleted."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.pods: dict[str, dict[str, Any]] = {"driver": _pod("driver", {})}
        self.executors: list[subprocess.Popen[bytes]] = []
        self.changed = threading.Condition()
        self.events: list[dict[str, Any]] = []

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        """A pod runs as soon as it is asked for."""
        name = pod["metadata"]["name"]
        made = _pod(name, pod)
        self.pods[name] = made
        environment = _environment(pod)
        archive = f"-XX:ArchiveClassesAtExit={EXECUTOR_ARCHIVE}"
        given = {**os.environ, **environment, "FLAMESTREAM_EXECUTOR_ARCHIVE": archive}
        self.executors.append(
            subprocess.Popen([HOME / "entrypoint", "executor"], env=given, stdin=subprocess.DEVNULL)
        )
        self.tell("ADDED", made)
        return made

    def tell(self, kind: str, pod: dict[str, Any]) -> None:
        """To everybody who watches."""
        with self.changed:
            self.events.append({"type": kind, "object": pod})
            self.changed.notify_all()


class Answers(BaseHTTPRequestHandler):
    """One request."""

    server: StandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        if "watch=true" in self.path:
            self._watch()
        elif name in self.server.pods:
            self._answer(200, self.server.pods[name])
        elif name == "pods":
            # one pod is asked for by a field, executors by their labels
            driver = "metadata.name" in self.path
            items = [pod for key, pod in self.server.pods.items() if (key == "driver") == driver]
            self._answer(
                200,
                {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items},
            )
        else:
            self._answer(
                404,
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "status": "Failure",
                    "reason": "NotFound",
                    "code": 404,
                },
            )

    def do_POST(self) -> None:
        given = self._body()
        if self.path.partition("?")[0].endswith("/pods"):
            self._answer(201, self.server.create(given))
        else:
            given.setdefault("metadata", {}).update(uid="1", resourceVersion="1")
            self._answer(201, given)

    do_PUT = do_PATCH = do_POST

    def do_DELETE(self) -> None:
        self._body()
        self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _watch(self) -> None:
        """By WebSocket, as Spark's client asks for it first."""
        key = self.headers["Sec-WebSocket-Key"] + WEBSOCKET
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header(
            "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        )
        self.end_headers()
        told = 0
        while True:
            with self.server.changed:
                self.server.changed.wait_for(lambda seen=told: len(self.server.events) > seen)
                fresh, told = self.server.events[told:], len(self.server.events)
            for event in fresh:
                data = json.dumps(event).encode()
                self.wfile.write(struct.pack(">BBH", 0x81, 126, len(data)) + data)
            self.wfile.flush()

    def _body(self) -> dict[str, Any]:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found: dict[str, Any] = json.loads(data) if data else {}
        return found

    def _answer(self, code: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _pod(name: str, given: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        **given.get("metadata", {}),
        "name": name,
        "namespace": NAMESPACE,
        "uid": name,
        "resourceVersion": "1",
    }
    status = {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "executor", "image": "x", "imageID": "x", "ready": True, "restartCount": 0,
             "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
        ],
    }  # fmt: skip
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": given.get("spec", {"containers": []}),
        "status": status,
    }


def _environment(pod: dict[str, Any]) -> dict[str, str]:
    """What the kubelet would set: values, and the pod's own fields."""
    fields = {"status.podIP": "127.0.0.1", "metadata.name": pod["metadata"]["name"]}
    found = {}
    for variable in pod["spec"]["containers"][0].get("env", []):
        source = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        found[variable["name"]] = fields[source] if source else variable.get("value") or ""
    return found


def _too_late(*_: object) -> None:
    """At once: whoever waits here for Spark would wait on."""
    sys.stderr.write(
        f"make_archives: no archives within {WITHIN} s: Spark's words are above, or the processor was too "
        "busy: try again\n"
    )
    sys.stderr.flush()
    os._exit(1)


def main() -> None:
    # writing an archive is the JVM's last act, and takes its time where the processor is shared
    jvm.END_WITHIN = END_WITHIN
    signal.signal(signal.SIGALRM, _too_late)
    signal.alarm(WITHIN)  # Spark tries a failing task again for ever
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # nobody can resolve this host's name where an image is made
    server = StandIn()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    java = find_java()
    archive = archive_of(java, class_path())
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret"
        secret.write_text(secrets.token_hex(32))  # a Secret's, in a pod
        template = Path(folder) / "executor.json"
        template.write_text(
            json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "executor"}]}})
        )
        kubernetes = KubernetesSettings(
            namespace=NAMESPACE, driver_pod="driver", driver_ip="127.0.0.1", image="x", pod_name_prefix="x",
            executors=1, template=str(template), api=f"http://127.0.0.1:{server.server_port}",
        )  # fmt: skip
        conf = {
            **kubernetes_conf(kubernetes),
            "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive}",
            "spark.authenticate.secret.file": str(secret),
        }
        settings = SparkSettings(
            workers=1, scratch=Path(folder) / "spark", master=kubernetes.master, conf=conf, console=True
        )
        with SparkDriver(settings, java) as driver:
            assert driver.context.parallelize(range(2), 2).map(str).collect() == ["0", "1"]
    deadline = time.monotonic() + END_WITHIN
    for executor in server.executors:
        executor.wait(max(0.1, deadline - time.monotonic()))
    for file in (archive, EXECUTOR_ARCHIVE):
        if not file.exists():
            sys.exit(f"make_archives: {file} was not written")
        file.chmod(0o444)
        sys.stdout.write(f"{file}: {file.stat().st_size >> 20} MB\n")
    (HOME / "driver.jsa").symlink_to(archive)


if __name__ == "__main__":
    main()
