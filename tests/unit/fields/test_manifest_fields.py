"""Every field of the manifest has an effect, or is refused: a row a field, and a row a value of each
enumeration."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

from flamestream.job.manifest import GUARANTEES, MANIFEST, STRONG
from flamestream.model.errors import FlameStreamError
from support.fields import Row, leaves, uncovered
from support.views.manifest import CLUSTER, OneMachine, View

LOCAL: dict[str, Any] = {
    "apiVersion": "flamestream.dev/v1alpha1",
    "kind": "FlameStreamJob",
    "metadata": {"name": "job"},
    "spec": {
        "application": {"file": "fields_application.py", "graph": "graph"},
        "sources": {"numbers": {"generator": {"count": 10}}},
        "sinks": {"out": {"files": {"path": "out"}}},
        "workers": {"replicas": 2},
        "checkpoint": {"interval": "1s", "store": "snapshots"},
    },
}
"""On one machine."""
HOSTED: dict[str, Any] = {
    **LOCAL,
    "spec": {
        **LOCAL["spec"],
        "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
        "checkpoint": {"interval": "1s", "store": "s3://bucket/j", "secret": "store"},
    },
}
"""In a cluster."""
APPLICATION = """\
import flamestream as fs

graph = fs.Graph("numbers")
graph.source("numbers").map(str).sink("out")
other = fs.Graph("others")
other.source("numbers").map(int).sink("out")
kept = fs.Graph("kept")
kept.source("numbers").reduce(name="seen", key=str, combine=fs.count()).sink("out")
moves = fs.Graph("moves")
counted = moves.table("counted", initial=int)
moves.source("numbers").transact(lambda state, n: state[counted, n]).committed.sink("out")
asks = fs.Graph("asks")
asks.source("numbers").call(str, name="asked").sink("out")
asks.source("others").call(fs.call(doubt="never")(str), key=str, name="once").sink("others")
"""
SOCKET = {"spec.sources": {"numbers": {"socket": {"address": "a:1"}}}}
KAFKA = {"spec.sources": {"numbers": {"kafka": {"brokers": "k:9092", "topic": "t"}}}}
ZK = {"spec.journal.folder": "zookeeper://"}
TWO_READERS = {"numbers": {"kafka": {"brokers": "k:9092", "topic": "t", "readers": 2}}}
JOURNALLED = {**SOCKET, "spec.journal.folder": "journal"}
IN_ZOOKEEPER = {**SOCKET, "spec.journal.folder": "zookeeper://"}
IN_TOPIC = {**SOCKET, "spec.journal.kafka": {"topic": "j", "brokers": "k:9092"}}
LISTENING = {
    "spec.sources": {"numbers": {"http": {"listen": "[::]:80", "path": "/numbers", "keys": "/keys"}}}, "spec.journal.folder": "zookeeper://",
}  # fmt: skip
ASKED = {"spec.application.graph": "kept", "spec.queries": {"listen": "[::]:7070"}}
TRACED = {"spec.tracing": {"endpoint": "http://c:4318", "sample": "1/2"}}
SEALED = {**ASKED, "spec.queries.tls": {"certFile": "tls.crt", "keyFile": "tls.key"}}
ASKS = {
    "spec.application.graph": "asks", "spec.journal.folder": "journal",
    "spec.sources.others": {"generator": {"count": 10}}, "spec.sinks.others": {"files": {"path": "others"}},
}  # fmt: skip
BETWEEN = {"spec.workers.replicas": None, "spec.workers.min": 1}
LIMITED = {"spec.workers.resources.limits": {"memory": "2Gi"}}
ERRORS = {"spec.sinks.errors": {"files": {"path": "errors"}}}

ROWS = [
    Row("apiVersion", "flamestream.dev/v2", refused="write flamestream.dev/v1alpha1"),
    Row("kind", "Job", refused="write FlameStreamJob"),
    Row("metadata.name", "other", "workers"),
    Row("metadata.labels", {"team": "x"}, "summary"),
    Row("spec.application.file", "fields_other.py", "workers"),
    Row("spec.application.graph", "other", "coordinator"),
    Row("spec.application.configMap", None, "driver", before="app"),
    Row("spec.application.pyFiles", ["fields_library.zip"], "workers"),
    Row("spec.application.pyFiles", ["fields_library.zip"], "session"),
    Row("spec.application.pyFiles", ["nothing.zip"], refused="nothing.zip cannot be read"),
    Row("spec.application.pyFiles", ["s3://b/l.zip"], "hosted", refused="it could change while the job runs: pin it"),
    Row("spec.sources", {"numbers": {"generator": {"count": 11}}}, "workers"),
    Row("spec.sources", {"numbers": {"connector": {"class": "mine:Source"}}}, "hosted", before=TWO_READERS, given=ZK),
    Row("spec.sinks", {"out": {"files": {"path": "elsewhere"}}}, "workers"),
    Row("spec.workers.replicas", 3, "coordinator"),
    Row("spec.workers.replicas", 3, "applications"),
    Row("spec.workers.max", 4, "coordinator", along=BETWEEN),
    Row("spec.workers.max", 4, "session", along=BETWEEN),
    Row("spec.workers.max", 4, "summary", along=BETWEEN),
    Row("spec.workers.max", 4, refused="say how many: replicas: 2, or min: 1 and max: 8"),
    Row("spec.workers.max", 1, given={**BETWEEN, "spec.workers.min": 2}, refused="less than min: write 2 or more"),
    Row("spec.workers.max", 9, along={**BETWEEN, "spec.workers.slots": 8}, refused="a worker without slots would be idle"),
    Row("spec.workers.max", 4, given={"spec.guarantee": "micro-batch"}, along=BETWEEN, refused="write replicas instead"),
    Row("spec.workers.max", 4, given={"spec.guarantee": "none"}, along=BETWEEN, refused="write replicas instead"),
    Row("spec.workers.min", 2, "coordinator", given={**BETWEEN, "spec.workers.max": 4}),
    Row("spec.workers.min", 2, "applications", given={**BETWEEN, "spec.workers.max": 4}),
    Row("spec.workers.balanceAfter", "1m", "coordinator"),
    Row("spec.workers.balanceAfter", "1m", given={"spec.guarantee": "none"}, refused="no slots move: remove the line"),
    Row("spec.workers.balanceAfter", "1m", given={"spec.guarantee": "micro-batch"}, refused="no slots move: remove the line"),
    Row("spec.workers.replicas", 9, given={"spec.workers.slots": 8}, refused="a worker without slots would be idle"),
    Row("spec.workers.standby", 1, "session"),
    Row("spec.workers.standby", 1, "applications"),
    Row("spec.workers.standby", 1, given={"spec.guarantee": "micro-batch"}, refused="a micro-batch job has no standbys: remove the line"),
    Row("spec.workers.slots", 16, "workers"),
    Row("spec.workers.slots", 16, "hosted"),
    Row("spec.workers.resources.requests", {"cpu": "700m"}, "executor", given=LIMITED),
    Row("spec.workers.resources.requests", {"memory": "1Gi"}, "executor"),
    Row("spec.workers.resources.requests", {"ephemeral-storage": "1Gi"}, "executor", given=LIMITED),
    Row(
        "spec.workers.resources.requests", {"memory": "1Gi"}, given=LIMITED,
        refused="Spark gives a worker one amount of memory, as request and limit: remove requests.memory",
    ),
    Row("spec.workers.resources.limits", {"memory": "3Gi"}, "executor"),
    Row("spec.workers.resources.limits", {"cpu": 2, "memory": "2Gi"}, "executor"),
    Row("spec.workers.resources.limits", {"nvidia.com/gpu": 1, "memory": "2Gi"}, "executor"),
    Row("spec.workers.resources.limits", {"nvidia.com/gpu": 1, "memory": "2Gi"}, "trial"),
    Row("spec.workers.resources.limits", {"memory": "64Mi"}, "executor", refused="at least 512Mi"),
    Row("spec.checkpoint.interval", "5s", "coordinator"),
    Row("spec.checkpoint.interval", "5s", "hosted"),
    Row("spec.checkpoint.store", "elsewhere", "workers"),
    Row("spec.checkpoint.store", "s3://bucket/k", "hosted"),
    Row("spec.checkpoint.store", "/folder", "hosted", refused="in a cluster the store is s3://bucket/prefix"),
    Row("spec.checkpoint.secret", "keys", "executor"),
    *(Row("spec.guarantee", value, "workers") for value in GUARANTEES if value not in ("exactly-once", "micro-batch", STRONG)),
    *(Row("spec.guarantee", value, "hosted") for value in GUARANTEES if value not in ("exactly-once", "micro-batch", STRONG)),
    Row("spec.guarantee", STRONG, "workers", given=JOURNALLED),
    Row("spec.guarantee", STRONG, refused="needs a journal under strong-productions"),
    Row("spec.guarantee", "micro-batch", "hosted"),
    Row("spec.guarantee", "micro-batch", "executor"),
    Row("spec.guarantee", "micro-batch", "driver"),
    Row("spec.journal.folder", "elsewhere", "workers", before="journal", given=SOCKET),
    Row("spec.journal.folder", "journal", given={"spec.guarantee": "none", **SOCKET}, refused="under none there is no journal: remove it"),
    Row("spec.journal.folder", "journal", given={"spec.guarantee": "at-most-once", **SOCKET}, refused="under at-most-once there is no journal: remove it"),
    Row("spec.journal.kafka.topic", "k", "workers", given=IN_TOPIC),
    Row("spec.journal.kafka.brokers", "k:9093", "workers", given=IN_TOPIC),
    Row("spec.journal.kafka.settings", {"client.id": "x"}, "workers", given=IN_TOPIC),
    Row("spec.journal.kafka.secrets", {"sasl.password": {"env": "P"}}, "workers", given=IN_TOPIC),
    Row("spec.journal.fsync", False, "workers", given=JOURNALLED),
    Row("spec.journal.fsync", False, given=IN_ZOOKEEPER, refused="fsync is of a folder: ZooKeeper's own settings decide when it writes"),
    Row("spec.journal.fsync", False, given=IN_TOPIC, refused="fsync is of a folder: the brokers' own settings decide when they write"),
    Row("spec.journal.keep", True, "workers", given=JOURNALLED),
    Row(
        "spec.journal.shared", False, "hosted", before=True, given={**SOCKET, "spec.journal.folder": "/journal"},
        refused="a lost node would take what is journalled",
    ),
    Row("spec.journal.shared", True, given=IN_ZOOKEEPER, refused="shared is of a folder: remove the line"),
    Row("spec.journal.shared", True, given=IN_TOPIC, refused="shared is of a folder: remove the line"),
    Row("spec.onError.deadLetter", "errors", "settings", along=ERRORS),
    Row("spec.onError", {"deadLetter": "out"}, refused="error items need a sink of their own"),
    Row("spec.limits.runs", 10, "workers"),
    Row("spec.limits.bytes", 10, "workers"),
    Row("spec.limits.bytes", 10, given={"spec.guarantee": "micro-batch"}, refused="bounded by limits.runs alone"),
    Row("spec.calls", {"asked": {"timeout": "1s"}}, "workers", given=ASKS),
    Row("spec.calls", {"askd": {"timeout": "1s"}}, given=ASKS, refused="is 'asked' meant?"),
    Row("spec.calls.asked.timeout", "1s", "workers", given=ASKS),
    Row("spec.calls.asked.retries", 9, "workers", given=ASKS),
    Row("spec.calls.once.retries", 1, given=ASKS, refused="a second try could be a second effect"),
    Row("spec.calls.asked.giveUpAfter", "10m", "workers", given=ASKS),
    Row("spec.calls.once.giveUpAfter", "10m", given=ASKS, refused="spec.calls.once.giveUpAfter: call once() is tried once"),
    Row("spec.calls.asked.giveUpAfter", "10m", given={**ASKS, "spec.calls.asked.retries": 0}, refused="is tried once"),
    Row("spec.calls.asked.concurrency", 9, "workers", given=ASKS),
    Row("spec.calls.asked.pending", 9, "workers", given=ASKS),
    Row("spec.calls.asked.rate", 0.5, "workers", given=ASKS),
    Row("spec.calls.asked.cache", "1m", "workers", given=ASKS),
    Row("spec.calls.once.cache", "1m", given=ASKS, refused="it is for calls without an effect"),
    Row("spec.calls.once.order", "key", "workers", given=ASKS),
    Row("spec.calls.once.order", "none", "workers", before="key", given=ASKS),
    Row("spec.calls.asked.order", "key", given=ASKS, refused="call asked() has no key"),
    Row("spec.calls.asked.doubt", "never", "workers", given=ASKS),
    Row("spec.calls.asked.doubt", "never", given={**ASKS, "spec.calls.asked.retries": 1}, refused="a second try could be a second effect"),
    Row("spec.calls.once.doubt", "again", "workers", given=ASKS),
    Row("spec.clients", {"db": {"postgres": {"dsn": "postgresql://h/d"}}}, "workers", given=ASKS),
    Row("spec.clients", {"db": {"postgres": {"dsn": "postgresql://h/d"}}}, "summary", given=ASKS),
    Row("spec.clients", {"db": {"postgres": {"dns": "h"}}}, given=ASKS, refused="spec.clients.db.postgres: Object contains unknown field `dns`"),
    Row("spec.clients", {"db": {"postgres": {"dsn": "postgresql://u:p@h/d"}}}, given=ASKS, refused="a password does not belong into a manifest"),
    Row("spec.clients", {"db": {"redys": {}}}, given=ASKS, refused="choose one of postgres, redis"),
    Row("spec.clients", {"db": {}}, given=ASKS, refused="it needs exactly one kind with its settings, like {redis:"),
    Row("spec.clients", {"db": {"redis": {"url": "redis://h"}}}, refused="has no call, so nothing is asked: remove it"),
    Row("spec.clients", {"db": {"redis": {"url": "redis://h"}}}, given={**ASKS, "spec.egress": ["i:6379"]}, refused="h:6379 is not in spec.egress"),
    Row("spec.tracing.endpoint", "http://d:4318", "workers", given=TRACED),
    Row("spec.tracing.endpoint", "d:4318", given=TRACED, refused="spec.tracing.endpoint"),
    Row("spec.tracing.sample", "1/10", "workers", given=TRACED),
    Row("spec.tracing.sample", "0.1", given=TRACED, refused="spec.tracing.sample"),
    Row("spec.tracing.sample", "1/10", given={**TRACED, "spec.guarantee": "micro-batch"}, refused="no workers that pass runs on"),
    Row("spec.sinks", {"out": {"kafka": {"brokers": "k:9092", "topic": "t", "traceparent": True}}}, refused="nothing is traced"),
    Row("spec.queries.listen", "[::]:7071", "workers", given=ASKED),
    Row("spec.queries.listen", "[::]:7071", "reached", given=ASKED),
    Row("spec.queries.listen", "7071", given=ASKED, refused="an address is host:port, not '7071'"),
    Row("spec.queries.listen", "h:1", refused="keeps no state: remove it"),
    Row("spec.queries.listen", "h:1", given={"spec.guarantee": "micro-batch"}, refused="no worker that could be asked"),
    Row("spec.queries.listen", "[::1]:7070", "executor", given=ASKED, refused='write listen: "0.0.0.0:7070"'),
    Row("spec.queries.tokenFile", "token", "workers", given=ASKED),
    Row("spec.queries.tokenFile", "token", "executor", given=ASKED),
    Row("spec.queries.tls.certFile", "new.crt", "workers", given=SEALED),
    Row("spec.queries.tls.keyFile", "new.key", "workers", given=SEALED),
    Row("spec.queries.tls.keyFile", None, given=SEALED, refused="it has certFile and keyFile, or in a cluster secret alone"),
    Row("spec.queries.tls.secret", "other", "executor", given={**ASKED, "spec.queries.tls": {"secret": "tls"}}),
    Row("spec.queries.tls.secret", "other", given={**ASKED, "spec.queries.tls": {"secret": "tls"}}, refused="a Secret is in a cluster: write certFile"),
    Row("spec.queries.tables", ["seen"], "workers", given=ASKED),
    Row("spec.queries.tables", ["sen"], given=ASKED, refused="keeps nothing named 'sen': is 'seen' meant?"),
    Row("spec.queries.share", 0.5, "workers", given=ASKED),
    Row("spec.transactions.patience", 0, "workers", given={"spec.application.graph": "moves"}),
    Row("spec.transactions.patience", 0, refused="has no transactions"),
    Row(
        "spec.transactions.patience", 0, given={"spec.application.graph": "moves", "spec.guarantee": "micro-batch"},
        refused="a micro-batch decides each transaction once, in order: remove the line",
    ),
    Row("spec.egress", ["localhost:80", "10.0.0.0/8"], "workers", given=ASKS),
    Row("spec.egress", ["a b"], given=ASKS, refused="'a b' is none of HOST, HOST:PORT"),
    Row("spec.egress", ["localhost:80"], refused="has no call"),
    Row("spec.debug", True, "workers"),
    Row("spec.spark.master", "spark://host:7077", "session"),
    Row("spec.spark.conf", {"spark.log.level": "WARN"}, "session"),
    Row("spec.spark.conf", {"spark.log.level": "WARN"}, "driver"),
    Row("spec.image", "other:1", "executor"),
    Row("spec.imagePullPolicy", "Always", "executor"),
    Row("spec.imagePullPolicy", "Never", "executor", given={"spec.image": "other:1"}),
    Row("spec.imagePullPolicy", "IfNotPresent", "executor"),
    Row("spec.zookeeper.servers", "elsewhere:2181", "hosted", refused="leave the field out"),
    Row("spec.driver.resources.requests", {"cpu": "2"}, "driver"),
    Row("spec.driver.resources.limits", {"memory": "2Gi"}, "driver"),
    Row("spec.pods.labels", {"team": "x"}, "executor"),
    Row("spec.pods.annotations", {"team": "x"}, "executor"),
    Row("spec.pods.driver.labels", {"group": "x"}, "driver"),
    Row("spec.pods.driver.annotations", {"group": "x"}, "driver"),
    Row("spec.pods.workers.labels", {"group": "x"}, "executor"),
    Row("spec.pods.workers.annotations", {"group": "x"}, "executor"),
    Row("spec.pods.nodeSelector", {"disk": "fast"}, "executor"),
    Row("spec.pods.tolerations", [{"key": "spot", "operator": "Exists"}], "executor"),
    Row("spec.pods.affinity", {"podAffinity": {"x": []}}, "executor"),
    Row("spec.pods.volumes", [{"name": "v", "emptyDir": {}}], "executor"),
    Row("spec.pods.volumeMounts", [{"name": "v", "mountPath": "/v"}], "executor"),
    Row("spec.pods.env", [{"name": "A", "value": "b"}], "executor"),
    Row("spec.pods.serviceAccountName", "mine", "driver"),
    Row("spec.pods.imagePullSecrets", ["pull"], "executor"),
    Row("spec.pods.priorityClassName", "high", "executor"),
    Row("spec.pods.topologySpreadConstraints", [{"maxSkew": 1, "topologyKey": "zone"}], "executor"),
    Row("spec.pods.topologySpreadConstraints", [{"maxSkew": 1, "topologyKey": "zone"}], "driver"),
    Row("spec.pods.schedulerName", "volcano", "executor"),
    Row("spec.pods.schedulerName", "volcano", "driver"),
    Row("spec.pods.clients", [{"podSelector": {}}], "reached", given=LISTENING),
    Row("spec.highAvailability", True, "applications"),
    Row("spec.suspend", True, "runs"),
    Row("spec.upgrade.strategy", "Fresh", "is_changed", before="Restore"),
    Row("spec.upgrade.strategy", "Restore", "is_changed", before="Fresh"),
    Row("spec.upgrade.strategy", "Tick", "is_changed", before="Restore"),
    Row("spec.upgrade.drop", ["gone"], "coordinator"),
    Row("spec.upgrade.drop", ["gone"], "hosted"),
    Row("spec.upgrade.drop", ["gone"], "is_changed"),
    Row("spec.upgrade.canary", 7, "canary"),
    Row("spec.upgrade.watch", "5s", "coordinator"),
    Row("spec.upgrade.watch", "5s", "hosted"),
    Row("spec.upgrade.keep", "10m", "coordinator"),
    Row("spec.upgrade.keep", "10m", "hosted"),
    Row("spec.handOver.to", "green", "is_taken_over"),
    Row("spec.takeOver.job", "before", "coordinator"),
    Row("spec.takeOver.origin", "first", "coordinator", given={"spec.takeOver": {"job": "before"}}),
    Row("spec.takeOver.shadow", True, "takes_over", given={"spec.takeOver": {"job": "before"}}),
    Row("spec.restoreFrom.snapshot", "before", "is_restored"),
    Row("spec.restartPolicy", "Never", "loses_drivers"),
    Row("spec.restartPolicy", "Always", "cannot_load"),
    Row("spec.backoff.initial", "3s", "is_patient"),
    Row("spec.backoff.max", "10s", "is_patient"),
    Row("spec.backoff.resetAfter", "1h", "is_patient"),
    Row("spec.backoff.limit", 3, "is_patient"),
    Row("spec.deadline", "60s", "runs"),
    Row("spec.ttlAfterFinished", "100s", "completes"),
    Row("spec.deletionPolicy", "Delete", "is_deleted"),
    Row("spec.savepoints.every", "20s", "runs", given={"spec.savepoints": {"every": "50s"}}),
    Row("spec.savepoints.keep", 1, "runs", given={"spec.savepoints": {"every": "20s"}}),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("job")
    for name in ("application", "other"):
        (made / f"fields_{name}.py").write_text(APPLICATION)
    with zipfile.ZipFile(made / "fields_library.zip", "w") as archive:
        archive.writestr("fields_library/__init__.py", "")
    return made


@pytest.fixture
def views(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, View]:
    machine = OneMachine(folder, monkeypatch)
    return {
        **CLUSTER,
        **{
            name: getattr(machine, name)
            for name in ("workers", "settings", "coordinator", "session", "summary", "canary")
        },
    }


def test_every_field_and_every_value_of_an_enumeration_has_a_row() -> None:
    assert uncovered(leaves(MANIFEST), ROWS) == []


@pytest.mark.parametrize("row", [row for row in ROWS if not row.refused], ids=str)
def test_a_change_of_a_field_is_seen(row: Row, views: dict[str, View]) -> None:
    before, after = row.documents(HOSTED if row.sees in CLUSTER else LOCAL)
    view = views[row.sees]
    assert view(before) == view(before), "what is compared must not differ by itself"
    assert view(before) != view(after)


@pytest.mark.parametrize("row", [row for row in ROWS if row.refused], ids=str)
def test_what_would_have_no_effect_is_refused_with_what_to_do(row: Row, views: dict[str, View]) -> None:
    document = row.documents(HOSTED if row.sees in CLUSTER else LOCAL)[1]
    with pytest.raises(FlameStreamError) as caught:
        views[row.sees or "workers"](document)
    assert row.refused in str(caught.value)
    assert str(caught.value).partition(row.path.split(".")[1] if "." in row.path else row.path)[1], (
        "it names the field"
    )
