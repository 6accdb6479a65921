"""Command lines as a test gives them: what they said, what they left, and what they called of what is not
there in a test."""

import importlib
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flamestream.cli.local_drill import LocalPlace
from flamestream.job.drills.observed import DrillPlan
from flamestream.job.validation import CheckedJob
from flamestream.node.run_folder import RunFolder

Main = Callable[[list[str]], None]


@dataclass(frozen=True, slots=True)
class Said:
    """Of one command."""

    code: int
    out: str
    err: str
    calls: list[Any]

    @property
    def document(self) -> Any:
        """What `--json` has put on stdout. Raises ValueError if it is not one JSON document."""
        return json.loads(self.out)


@dataclass(slots=True)
class Terminal:
    """Runs commands of `main`; `calls` gets what stand-ins note."""

    main: Main
    capture: pytest.CaptureFixture[str]
    calls: list[Any] = field(default_factory=list)

    def run(self, *arguments: object) -> Said:
        self.calls.clear()
        with pytest.raises(SystemExit) as caught:
            self.main([str(each) for each in arguments])
        out = self.capture.readouterr()
        code = caught.value.code
        return Said(int(code or 0), out.out, out.err, list(self.calls))

    def noted(self, name: str, answer: Any = None) -> Callable[..., Any]:
        """A stand-in that notes how it is called."""

        def call(*positional: Any, **named: Any) -> Any:
            self.calls.append(
                (
                    name,
                    [_plain(each) for each in positional],
                    {key: _plain(each) for key, each in named.items()},
                )
            )
            return answer(*positional, **named) if callable(answer) else answer

        return call


def _plain(value: Any) -> Any:
    """What can be compared of an argument."""
    if isinstance(value, RunFolder):
        return value.path
    if isinstance(value, CheckedJob):
        return value.job.name
    if isinstance(value, LocalPlace):
        return value._folder.path, value._role
    if isinstance(value, DrillPlan):
        return repr(value)
    return (
        value
        if isinstance(value, str | int | float | bool | Path | None | list | dict | tuple)
        else type(value).__name__
    )


class StandInLauncher:
    """For `flamestream.local.launcher.Launcher`: notes what it was made with, and what a signal asks it
    for."""

    calls: list[Any]

    def __init__(
        self, checked: Any, folder: Any, *, spark: bool = True, changed: bool = False, **_: Any
    ) -> None:
        self.calls.append(
            ("launch", checked.job.name, checked.job.spec.debug, str(folder.path), spark, changed)
        )

    def run(self) -> Any:
        from flamestream.local.launcher import Outcome

        handler = signal.getsignal(signal.SIGTERM)
        assert callable(handler), "a signal is obeyed while it runs"
        handler(signal.SIGTERM, None)
        return Outcome("stopped")

    def request(self, what: str) -> None:
        self.calls.append(("asked", what))


def without(module: str, monkeypatch: pytest.MonkeyPatch, **names: Any) -> None:
    """Replace a module that is imported when it is needed, and takes long to import."""
    stand_in = type(sys)(module)
    for name, value in names.items():
        setattr(stand_in, name, value)
    monkeypatch.setitem(sys.modules, module, stand_in)
    package, _, last = module.rpartition(".")
    monkeypatch.setattr(importlib.import_module(package), last, stand_in, raising=False)
