"""A page typed from top to bottom: its files are written, its commands are typed into one shell, what they
say is compared.

A block whose first line is `# NAME` is the file NAME. A block in the language `console` is what a terminal
shows: lines behind `$ ` are typed (`> ` goes on), the others are the answer. Times, processes and places
differ from run to run, so they are compared as words.

>>> plain("struck w0.1-3f2a (seen gone): whole again after 214 ms")
'struck WORKER (seen gone): whole again after N ms'

Does not: know what a page is about.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from support.docs.doc_blocks import Block
from support.runs.scratch import ENVIRONMENT

END = "<<the command has ended>>"
CHANCE = (
    (r"\bw\d+\.\d+-[0-9a-f]+", "WORKER"),
    (r"\d[\d.,]* ?(ms|us|s|min|MB|GB)\b", r"N \1"),
    (r"\b(launcher|coordinator|Spark|epoch|attempt|cut|pid|layout) \(?\d+", r"\1 N"),
    (r"[\d,]+ results of [\d,]+ records", "N results of N records"),
    (r", \d+ not due yet", ""),
    (r"^(Passed: .*) \([\d,]+\) read", r"\1 (N) read"),
    (r"[0-9a-f]{12,}", "HEX"),
    (r" +", " "),
)
"""What is chance, and the word for it."""


def plain(text: str) -> str:
    """Without what differs from run to run."""
    for pattern, word in CHANCE:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


def session(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a console's block, and what it should say."""
    assert block.text.startswith("$ "), f"{block.name}: a console begins with a command"
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        more = next((at for at, line in enumerate(lines[1:], 1) if not line.startswith("> ")), len(lines))
        yield "\n".join([lines[0], *(line[2:] for line in lines[1:more])]), "\n".join(lines[more:])


def fits(said: str, shown: str) -> bool:
    """Whether it is what the page shows; `...` stands for anything.

    >>> fits("a 1 b 2 c", "a ... b ... c"), fits("a 1 c", "a ... b ... c"), fits("ab", "ab...b")
    (True, False, False)
    """
    # No regular expression: where it does not fit, one of several `.*` takes for ever to say so.
    first, *rest = plain(shown).split("...")
    text = plain(said)
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        if (found := text.find(part, at)) < 0:
            return False
        at = found + len(part)
    return text.endswith(rest[-1]) and len(text) - len(rest[-1]) >= at


class Terminal:
    """One shell in a scratch folder, in which `flamestream` is this checkout's."""

    def __init__(self, folder: Path, *, spark: bool = False) -> None:
        self.folder, programs = folder, folder / ".programs"
        programs.mkdir()
        plain_workers = "" if spark else 'if [ "${1:-}" = run ]; then set -- "$@" --no-spark; fi\n'
        self._program(
            programs / "flamestream", f'{plain_workers}exec {sys.executable} -m flamestream.cli.main "$@"'
        )
        self._program(programs / "python", f'exec {sys.executable} "$@"')
        self._program(programs / "pytest", f'exec {sys.executable} -m pytest -p no:cacheprovider "$@"')
        environment = {**ENVIRONMENT, "PATH": f"{programs}:{ENVIRONMENT['PATH']}", "COLUMNS": "80"}
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    @staticmethod
    def _program(file: Path, text: str) -> None:
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)

    def type(self, command: str, within: float = 180.0) -> str:
        """What it says until it has ended."""
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\necho; echo '{END}'\n")
        self._shell.stdin.flush()
        late = threading.Timer(within, self._shell.kill)
        late.start()
        try:
            said = "".join(iter(self._shell.stdout.readline, f"{END}\n"))
        finally:
            late.cancel()
        return said

    def close(self) -> None:
        """End what is still under way."""
        with self._shell:
            if self._shell.poll() is None and self._shell.stdin is not None:
                self._shell.stdin.write("kill $(jobs -p) 2>/dev/null; wait\n")
