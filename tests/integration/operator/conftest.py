"""The API server that these tests share."""

import os
from collections.abc import Iterator

import pytest

from support.api_server import ApiServer
from support.real_cluster import VARIABLE


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Named by the variable, or made for this session. Skips where there can be none."""
    if os.environ.get(VARIABLE):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        server = ApiServer(tmp_path_factory.mktemp("api-server"))
        try:
            server.start()
            patch.setenv(VARIABLE, str(server.kubeconfig))
            yield
        finally:
            server.stop()


_NAMED = os.environ.get(VARIABLE)


@pytest.fixture
def own_api_server(api_server: None) -> None:
    """One without nodes of its own: support/kubelet.py is the node. `make e2e` goes through the same with real nodes."""
    if _NAMED:
        pytest.skip(f"{VARIABLE} names a cluster with nodes of its own")
