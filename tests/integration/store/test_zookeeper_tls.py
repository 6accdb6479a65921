"""ZooKeeper over TLS: a session reaches the server that its authority vouches for, by its name, and no other;
the server takes no other."""

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flamestream.model.errors import ClusterStateUnavailable
from flamestream.store.zookeeper import ClusterState
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream.store.zookeeper_server import is_ready
from flamestream.store.zookeeper_tls import TlsHandler
from support.zookeeper.authority import Authority
from support.zookeeper.pod import LOGIN, SharedZooKeeper

SOON = 3.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authorities") / "ours")


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedZooKeeper]:
    with SharedZooKeeper(tmp_path_factory.mktemp("server"), authority.server(), authority.text) as made:
        yield made


def refusal(server: SharedZooKeeper, authority: str) -> str:
    with pytest.raises(ClusterStateUnavailable) as refused:
        ClusterState(ZooKeeperAccess(server.hosts, LOGIN, authority), connect_within=SOON)
    return str(refused.value)


def test_a_session_over_tls_writes_and_reads(server: SharedZooKeeper) -> None:
    with ClusterState(server.access()) as state:
        state.ask("writing", lambda: state.client.create_async("/sealed", b"x" * 100_000))
        assert state.ask("reading", lambda: state.client.get_async("/sealed"))[0] == b"x" * 100_000


def test_a_second_answer_in_one_record_of_tls_is_not_waited_for(authority: Authority) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder = authority.server(days=4)
    serving.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(lambda: serving.wrap_socket(listener.accept()[0], server_side=True))
        handler = TlsHandler(authority.text)
        with (
            handler.create_connection(listener.getsockname(), "127.0.0.1", SOON) as client,
            accepted.result() as other,
        ):
            other.sendall(b"ab")
            assert client.recv(1) == b"a"
            assert handler.select([client], [], [], 0.1)[0] == [client]


def test_a_certificate_of_another_authority_is_refused(server: SharedZooKeeper, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    assert "the authority that is trusted must have signed it" in refusal(server, other.text)


def test_an_authority_of_the_machine_is_not_trusted(
    authority: Authority, server: SharedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trusted").write_text(authority.text)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted"))
    assert "certificate is refused" in refusal(server, Authority(tmp_path / "other").text)


@pytest.mark.parametrize(
    ("name", "days", "why"), [("127.0.0.2", 5, "IP address mismatch"), ("127.0.0.1", -1, "expired")]
)
def test_a_certificate_of_another_name_or_time_is_refused(
    authority: Authority, tmp_path: Path, name: str, days: int, why: str
) -> None:
    with SharedZooKeeper(tmp_path, authority.server(name, days), authority.text) as server:
        assert why in refusal(server, authority.text)


def test_a_plain_connection_is_refused(server: SharedZooKeeper) -> None:
    assert not is_ready(server.hosts)
    assert "no ZooKeeper answers" in refusal(server, "")


def test_a_server_without_tls_is_refused_before_it_hears_the_login(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        hosts = f"127.0.0.1:{plain.getsockname()[1]}"
        with pytest.raises(ClusterStateUnavailable):
            ClusterState(ZooKeeperAccess(hosts, LOGIN, authority.text), connect_within=0.5)
        connection, _ = plain.accept()
        with connection:
            assert LOGIN.encode() not in connection.recv(65536)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_the_server_speaks_no_tls_below_1_2(authority: Authority, server: SharedZooKeeper) -> None:
    context = ssl.create_default_context(cadata=authority.text)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    host, _, port = server.hosts.rpartition(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"),
    ):
        context.wrap_socket(plain, server_hostname=host)
