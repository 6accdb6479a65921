"""The external metrics API of a cluster, answered by a test as prometheus-adapter answers it: by the rule that is for
it in `charts/flamestream/scaling/`, asked of a real Prometheus.

Does not: know what is scaled.
"""

import datetime
import ipaddress
import json
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from e2e.support.kube import Kube, Object
from support.operator.prometheus import Prometheus

SCALING = Path(__file__).parents[2] / "charts" / "flamestream" / "scaling"
VERSION = "external.metrics.k8s.io/v1beta1"
API = f"/apis/{VERSION}"
VALUES = "ExternalMetricValueList"


def thing(version: str, kind: str, name: str, **more: Any) -> Object:
    """An object."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


@contextmanager
def metrics_api(kube: Kube, asked: Prometheus) -> Iterator[None]:
    """The external metrics API of the cluster, answered here."""
    address = host(kube)
    with _serving(kube.namespace, asked, address) as port:
        service = {"name": "metrics", "namespace": kube.namespace, "port": 443}
        kube.apply(
            *leads(address, port, "metrics", 443),
            thing(
                "apiregistration.k8s.io/v1", "APIService", "v1beta1.external.metrics.k8s.io",
                spec={
                    "service": service, "group": "external.metrics.k8s.io", "version": "v1beta1",
                    "insecureSkipTLSVerify": True, "groupPriorityMinimum": 100, "versionPriority": 100,
                },
            ),
        )  # fmt: skip
        try:
            yield
        finally:
            kube.delete("APIService", "v1beta1.external.metrics.k8s.io")


def leads(address: str, port: int, name: str, published: int) -> tuple[Object, Object]:
    """A Service of this name and port that leads out of the cluster, to a port of this machine."""
    subsets = [{"addresses": [{"ip": address}], "ports": [{"port": port}]}]
    ports = [{"port": published, "targetPort": port}]
    return thing("v1", "Service", name, spec={"ports": ports}), thing(
        "v1", "Endpoints", name, subsets=subsets
    )


def host(kube: Kube) -> str:
    """The address of this machine's node: the cluster is told to come back to it."""
    (node, *_) = kube.list("Node")
    addresses = node["status"]["addresses"]
    return str(next(each["address"] for each in addresses if each["type"] == "InternalIP"))


def _resources(name: str) -> Object:
    """The API as it is discovered: one metric."""
    resource = {"name": name, "singularName": "", "namespaced": True, "kind": VALUES, "verbs": ["get"]}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION, "resources": [resource]}


def _handler(told: Callable[[str], Object | None]) -> type[BaseHTTPRequestHandler]:
    """Answers with what is told of a path; None: there is nothing."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = told(self.path)
            if answer is None:
                self.send_error(404)
                return
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    return Handler


@contextmanager
def _serving(namespace: str, asked: Prometheus, address: str) -> Iterator[int]:
    (rule,) = yaml.safe_load((SCALING / "prometheus-adapter.yaml").read_text())["rules"]["external"]

    name = rule["name"]["as"]

    def values(chosen: str) -> list[Object]:
        label, _, job = chosen.partition("=")
        samples = asked.samples(rule["metricsQuery"].replace("<<.LabelMatchers>>", f'{label}="{job}"'))
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = [f"{round(float(sample['value'][1]) * 1000)}m" for sample in samples]
        return [{"metricName": name, "metricLabels": {}, "timestamp": now, "value": value} for value in found]

    def told(path: str) -> Object | None:
        url = urlparse(path)
        if url.path == API:
            return _resources(name)
        if url.path != f"{API}/namespaces/{namespace}/{name}":
            return None
        (chosen,) = parse_qs(url.query)["labelSelector"]
        return {"kind": VALUES, "apiVersion": VERSION, "metadata": {}, "items": values(chosen)}

    server = ThreadingHTTPServer(("", 0), _handler(told))
    server.socket = _sealed(address).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _sealed(address: str) -> ssl.SSLContext:
    """TLS with a certificate of its own."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(names, critical=True).sign(key, hashes.SHA256())
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file = Path(f"/tmp/flamestream-metrics-{uuid.uuid4().hex[:6]}.pem")
    file.write_bytes(key.private_bytes(pem, *form) + made.public_bytes(pem))
    context.load_cert_chain(file)
    file.unlink()
    return context
