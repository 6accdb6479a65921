"""The latency benchmark's options, as they are when none is given."""

import sys

import pytest
from figures import latency
from harness.job import Settings


def test_without_options_a_run_is_what_its_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []

    def run(settings: Settings) -> None:
        seen.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(latency, "run", run)
    monkeypatch.setattr(sys, "argv", ["latency.py", "--guarantees", "exactly-once", "--intervals", "1s"])
    with pytest.raises(KeyboardInterrupt):
        latency.main()
    assert seen == [Settings()]
