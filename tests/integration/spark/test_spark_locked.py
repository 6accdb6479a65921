"""Spark's own connections: who proves nothing is not heard, whatever the master is, and the secret is in no
arguments."""

import socket
import struct
from pathlib import Path

import pytest

from flamestream.spark.streaming.session import SparkDriver
from support.processes import descendants
from support.runs.spark_job import settings_in

pytestmark = pytest.mark.spark

RPC_REQUEST = 3


def request(body: bytes) -> bytes:
    """As Spark frames it: length of all, kind, number of the request, length of the body."""
    return struct.pack(">QBQI", 8 + 1 + 8 + 4 + len(body), RPC_REQUEST, 7, len(body)) + body


@pytest.mark.parametrize("master", ["", "local-cluster[1,1,512]"])
def test_a_stranger_is_not_heard_and_a_task_runs(tmp_path: Path, master: str) -> None:
    with SparkDriver(settings_in(tmp_path, master)) as driver:
        assert driver.context.parallelize(range(4), 2).map(lambda number: number * 2).sum() == 12
        conf = driver.context.getConf()
        said = b"".join(
            Path(f"/proc/{pid}/cmdline").read_bytes()
            for pid in [driver.jvm.pid, *descendants(driver.jvm.pid)]
        )
        assert b"pyspark" in said or b"flamestream.spark.streaming.daemon" in said, (
            "what is looked for can be found"
        )
        assert (conf.get("spark.authenticate.secret") or "never made").encode() not in said
        port = int(conf.get("spark.driver.port") or 0)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stranger:
            stranger.sendall(request(b"\0" * 64))
            answer = b""
            while part := stranger.recv(1 << 16):
                answer += part
        assert b"Unknown challenge message" in answer, "asked for a proof, and put out"
