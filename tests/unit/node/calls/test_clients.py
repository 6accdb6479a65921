"""What a caller's process says where the package of a client is not installed."""

import sys

import pytest

from flamestream.connectors import clients
from flamestream.model.calls.clients import ClientMisused
from flamestream.model.errors import ManifestError
from flamestream.node.calls.clients import OpenClients


@pytest.mark.parametrize("package", ["httpx2", "h2"])
def test_http_names_the_extra_that_it_needs(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ClientMisused, match=r"call\.http needs .*pip install 'flamestream\[http\]'"):
        OpenClients({}, 1).http()


def test_a_pool_names_the_extra_that_it_needs_before_the_job_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ManifestError, match=r"spec.clients.a.postgres: .*pip install 'flamestream\[postgres\]'"
    ):
        clients.settings_of({"postgres": {"dsn": "postgresql://h/d"}}, "spec.clients.a")
