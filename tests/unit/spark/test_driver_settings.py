"""What a driver pod starts its session with."""

from pathlib import Path

import pytest

from flamestream.spark.streaming.driver_config import DriverConfig
from flamestream.spark.streaming.driver_main import settings_of
from flamestream.spark.streaming.kubernetes import FOR_BATCHES
from flamestream.spark.streaming.session import SparkSettings

PLACE = {"POD_NAMESPACE": "n", "POD_NAME": "d", "POD_IP": "10.0.0.2", "KUBERNETES_SERVICE_HOST": "fd00::1"}
LOOK = "spark.kubernetes.executor.apiPollingInterval"


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLACE.items():
        monkeypatch.setenv(name, value)


def settings(folder: Path, *, batches: bool = False, own: dict[str, str] | None = None) -> SparkSettings:
    config = DriverConfig(
        job="n.j", coordinator="c:1", tasks=2, batches=batches, image="i", image_pull_policy="Always",
        pod_name_prefix="p", conf=own or {},
    )  # fmt: skip
    return settings_of(config, folder / "executor.json", folder)


@pytest.mark.usefixtures("pod")
def test_executors_of_batches_are_missed_sooner_unless_the_user_says(tmp_path: Path) -> None:
    stream, batches = (settings(tmp_path, batches=batches).conf for batches in (False, True))
    assert {name for name in {*stream, *batches} if stream.get(name) != batches.get(name)} == {*FOR_BATCHES}
    assert {name: batches[name] for name in FOR_BATCHES} == FOR_BATCHES
    assert settings(tmp_path, batches=True, own={LOOK: "9s"}).conf[LOOK] == "9s"


@pytest.mark.usefixtures("pod")
def test_beside_a_stream_executors_come_a_few_at_a_time(tmp_path: Path) -> None:
    def instances(*, beside: bool, tasks: int) -> str:
        config = DriverConfig(
            job="n.j", coordinator="c:1", tasks=tasks, beside=beside, image="i", image_pull_policy="Always",
            pod_name_prefix="p",
        )  # fmt: skip
        return settings_of(config, tmp_path / "executor.json", tmp_path).conf["spark.executor.instances"]

    assert [instances(beside=False, tasks=tasks) for tasks in (3, 100)] == ["3", "100"]
    assert [instances(beside=True, tasks=tasks) for tasks in (3, 100)] == ["1", "13"]


@pytest.mark.usefixtures("pod")
def test_an_ipv6_address_stands_in_brackets(tmp_path: Path) -> None:
    assert settings(tmp_path).master == "k8s://https://[fd00::1]:443"
