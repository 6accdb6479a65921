"""What a coordinator counts includes workers that are gone."""

import socket
from pathlib import Path

from flamestream.adapters.control import ControlServer
from flamestream.adapters.coordinator_host import CoordinatorHost
from flamestream.adapters.local_store import LocalStore
from flamestream.adapters.reactor import EpollReactor
from flamestream.adapters.record_file import RecordFile
from flamestream.core import messages as msg
from flamestream.core.coordination import Settings
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.model.time import END, START

A, B = WorkerId("a"), WorkerId("b")


def progress(items_in: int, items_out: int, replayed: int = 0) -> msg.Progress:
    return msg.Progress(NO_FENCE, START, START, END, items_in, items_out, replayed=replayed)


def test_a_lost_worker_s_items_stay_counted_and_what_is_read_again_counts_once(tmp_path: Path) -> None:
    reactor, listener = EpollReactor(), socket.create_server(("127.0.0.1", 0))
    try:
        settings = Settings(job="j", graph="g", python="3.11", workers=2, fronts=1)
        server = ControlServer(reactor, listener, "j", "token")
        store, record = LocalStore(tmp_path / "store", create=True), RecordFile(tmp_path / "record")
        host = CoordinatorHost(settings, "token", reactor, record, store, server, changed=lambda: None)
        host.from_worker(A, progress(20, 40))
        host.from_worker(B, progress(5, 10))
        host.disconnected(A, "killed")
        assert (host.look().items_in, host.look().items_out) == (25, 50)
        host.from_worker(B, progress(25, 50, replayed=20))
        assert host.look().items_in == 25
        host.from_worker(A, progress(21, 41))
        assert host.look().items_in == 26, "a worker that comes back counts on"
    finally:
        server.close()
        reactor.close()
