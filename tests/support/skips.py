"""The skip list: which tests a run of CI may leave out (tests/skips.toml), so that none stops running
unnoticed.

Every run ends with its skips, counted by reason. With `CI` in the environment a skip that no entry names
fails the run.

Keeps: a test that is skipped on the machine of CI has a line that says what is not proven without it. Does
not: skip anything.
"""

import os
import tomllib
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

LIST = Path(__file__).parents[1] / "skips.toml"


@dataclass(frozen=True, slots=True)
class Allowed:
    """An entry of the list: tests (a pattern of node ids), how their skip's reason begins, and what is not
    proven without them."""

    test: str
    reason: str
    unproven: str

    def names(self, test: str, reason: str) -> bool:
        return fnmatch(test, self.test) and reason.startswith(self.reason)


def allowed(path: Path = LIST) -> list[Allowed]:
    """All entries. Raises TypeError for one that lacks a field or has one more."""
    return [Allowed(**entry) for entry in tomllib.loads(path.read_text()).get("skip", [])]


class Skips:
    """The plugin: gathers skips where reports arrive (of several processes: in the one that asked them)."""

    def __init__(self, entries: list[Allowed], *, strict: bool) -> None:
        self._entries = entries
        self._strict = strict
        self._seen: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._see(report.nodeid, report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._see(report.nodeid, report.longrepr)

    def _see(self, test: str, told: object) -> None:
        reason = str(told[2]) if isinstance(told, tuple) else str(told)
        self._seen[test, reason.removeprefix("Skipped: ")] += 1

    @property
    def unnamed(self) -> list[tuple[str, str]]:
        """Tests that were skipped, and why, for which the list has no entry."""
        return [skip for skip in self._seen if not any(entry.names(*skip) for entry in self._entries)]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._strict and self.unnamed and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for reason, count in Counter(reason for _, reason in self._seen).most_common():
            terminalreporter.line(f"skipped: {count} of reason: {reason}")
        if self._strict and self.unnamed:
            terminalreporter.section("skipped, and not in tests/skips.toml", red=True)
            for test, reason in self.unnamed:
                terminalreporter.line(f"{test}: {reason}")


def register(config: pytest.Config) -> None:
    """Where reports of all processes arrive, and in no helper process of xdist's."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(allowed(), strict=bool(os.environ.get("CI"))), "skip list")
