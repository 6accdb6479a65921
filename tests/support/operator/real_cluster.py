"""A real API server for tests: the one that FLAMESTREAM_TEST_KUBECONFIG names (`make e2e` sets it), else one
of our own (api_server)."""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_global_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ServiceAccount

from flamestream_operator.kube.api import LightkubeApi
from flamestream_operator.kube.api import _kinds as kinds
from support.api_server import ApiServer
from support.eventually import eventually

VARIABLE = "FLAMESTREAM_TEST_KUBECONFIG"
ROOT = Path(__file__).parents[3]


def config() -> KubeConfig:
    return KubeConfig.from_file(os.environ[VARIABLE])


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """An API server of our own is the one that tests use. Skips where there can be none."""
    with pytest.MonkeyPatch.context() as patch:
        server = ApiServer(folder)
        try:
            server.start()
            patch.setenv(VARIABLE, str(server.kubeconfig))
            yield
        finally:
            server.stop()


@asynccontextmanager
async def the_api() -> AsyncIterator[LightkubeApi]:
    """The operator's own adapter."""
    api = LightkubeApi(config())
    try:
        yield api
    finally:
        await api.close()


@cache
def _kinds() -> tuple[Any, Any]:
    """The client's registry takes each kind once."""
    definitions = create_global_resource(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
    )
    return definitions, kinds()["Namespace"]


@contextmanager
def namespace(labels: dict[str, str] | None = None) -> Iterator[str]:
    """A fresh one, with our CRDs in the cluster."""
    client = Client(config=config(), field_manager="flamestream-tests", trust_env=False)
    definitions, namespaces = _kinds()
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        client.apply(definitions(yaml.safe_load(path.read_text())), force=True)
    eventually(lambda: _are_served(client), "our kinds are served")
    name = f"fs-test-{secrets.token_hex(4)}"
    client.create(namespaces({"metadata": {"name": name, "labels": labels or {}}}))
    _with_account(client, name)
    try:
        yield name
    finally:
        client.delete(namespaces, name)
        client._client.close()  # type: ignore[no-untyped-call]


def _are_served(client: Client) -> bool:
    """A server that is just learning a kind answers 404, without an object of its own, and then 429."""
    try:
        for kind in ("FlameStreamJob", "FlameStreamSnapshot", "FlameStreamDrill"):
            list(client.list(kinds()[kind], namespace="default"))
    except httpx2.HTTPStatusError as error:
        if error.response.status_code not in (404, 429):
            raise
        return False
    return True


def _with_account(client: Client, name: str) -> None:
    """No pod is admitted without `default`, and where there are no controllers nobody makes it."""
    try:
        client.create(ServiceAccount(metadata=ObjectMeta(name="default", namespace=name)))
    except ApiError as error:
        if error.status.reason != "AlreadyExists":
            raise
