"""The configuration of a session: what the user says counts, unless a job could not live with it."""

from pathlib import Path

import pytest

from flamestream.model.errors import ManifestError
from flamestream.spark.streaming.session import LIVES, SparkSettings, configuration


def settings(**fields: object) -> SparkSettings:
    return SparkSettings(**{"workers": 3, "scratch": Path("scratch"), **fields})  # type: ignore[arg-type]


def test_without_a_word_it_is_local_with_a_core_a_worker_and_lives_enough() -> None:
    assert configuration(settings())["spark.master"] == f"local[3,{LIVES}]"


@pytest.mark.parametrize(
    "master", ["local[8]", "local-cluster[2,1,512]", "spark://host:7077", "k8s://https://host:6443"]
)
def test_the_users_master_is_kept(master: str) -> None:
    assert configuration(settings(master=master))["spark.master"] == master
    assert configuration(settings(conf={"spark.master": master}))["spark.master"] == master


def test_the_users_settings_are_kept_above_ours() -> None:
    made = configuration(
        settings(conf={"spark.ui.enabled": "true", "spark.executor.memory": "4g", "spark.my.own": "x"})
    )
    assert (made["spark.ui.enabled"], made["spark.executor.memory"], made["spark.my.own"]) == (
        "true",
        "4g",
        "x",
    )


@pytest.mark.parametrize(
    "name", ["spark.task.maxFailures", "spark.executor.maxNumFailures", "spark.speculation"]
)
def test_a_setting_that_ends_or_doubles_workers_is_refused_by_name(name: str) -> None:
    with pytest.raises(ManifestError, match=f"spec.spark.conf.{name}: '4' is not possible"):
        configuration(settings(conf={name: "4"}))


def test_two_masters_are_refused() -> None:
    with pytest.raises(ManifestError, match="contradicts"):
        configuration(settings(master="local[2]", conf={"spark.master": "spark://host:7077"}))


def test_loopback_is_for_this_machine_only() -> None:
    assert configuration(settings())["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in configuration(settings(master="spark://host:7077"))


def test_workers_import_the_application_before_anything_of_the_launchers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/launchers")
    path = configuration(settings(python_path=(Path("/application"),)))["spark.executorEnv.PYTHONPATH"].split(
        ":"
    )
    assert path[0] == "/application"
    assert path[-1] == "/launchers"


def test_every_interpreter_hashes_counts_time_and_reads_text_alike() -> None:
    made = configuration(settings(master="spark://host:7077"))
    assert [made[f"spark.executorEnv.{name}"] for name in ("PYTHONHASHSEED", "TZ", "LC_ALL")] == [
        "0",
        "UTC",
        "C.UTF-8",
    ]


LOCKED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}


@pytest.mark.parametrize(
    "master", ["", "local[8]", "local", "local-cluster[2,1,512]", "k8s://https://host:6443", "yarn"]
)
def test_what_spark_says_is_proved_and_encrypted(master: str) -> None:
    made = configuration(settings(master=master))
    assert {name: made[name] for name in LOCKED} == LOCKED
    for name in LOCKED:
        with pytest.raises(ManifestError, match=f"spec.spark.conf.{name}: 'false' is not possible"):
            configuration(settings(master=master, conf={name: "false"}))


def test_a_cluster_of_sparks_own_has_its_users_secret() -> None:
    for chosen in ({"master": "spark://host:7077"}, {"conf": {"spark.master": "spark://host:7077"}}):
        assert not set(configuration(settings(**chosen))) & set(LOCKED)
    own = {"spark.authenticate": "true", "spark.authenticate.secret": "theirs"}
    assert (
        configuration(settings(master="spark://host:7077", conf=own))["spark.authenticate.secret"] == "theirs"
    )
