"""A process whose loop stands still ends itself, and its next life knows in which function it stood."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from flamestream.loop.watchdog import STDERR, Watchdog, explained, last_words

LOOP = """
    import sys
    from flamestream.loop.reactor import EpollReactor
    from flamestream.loop.watchdog import Watchdog

    reactor = EpollReactor()
    Watchdog(reactor, sys.argv[1], 0.4).begin()
"""
USERS = {
    "busy": ("def forever():\n    while True:\n        pass\n", r"users.py:\d in forever"),
    "asleep": ("import time\n\ndef forever():\n    time.sleep(3600)\n", "users.py:4 in forever"),
    "holds the interpreter": (
        'import re\n\ndef forever():\n    re.match("(a*)*b", "a" * 60)\n',
        "users.py:4 in forever",
    ),
    "catches everything": (
        "def forever():\n    while True:\n        try:\n            pass\n        except BaseException:\n    "
        "        pass\n",
        "users.py:",
    ),
}


def lived(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(LOOP) + textwrap.dedent(program), str(folder / "words")]
    return subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": ":".join([".", *sys.path])},
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("attack", USERS)
def test_a_function_that_does_not_return_ends_its_process_and_is_named(tmp_path: Path, attack: str) -> None:
    """Also one that holds the interpreter, so that no other thread of Python runs."""
    text, where = USERS[attack]
    (tmp_path / "users.py").write_text(text)
    ended = lived(tmp_path, "import users; reactor.soon(users.forever); reactor.run(lambda: None)")
    assert ended.returncode == 1
    words = last_words(str(tmp_path / "words"))
    assert words.startswith("a worker's watchdog ended it: a function did not return: ")
    assert re.search(where, words), words
    assert last_words(str(tmp_path / "words")) == "", "they are read once"


def test_an_application_that_does_not_load_ends_its_process_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import time\n\ntime.sleep(3600)\n")
    ended = lived(
        tmp_path,
        "from flamestream.loop.watchdog import limited\nwith limited(0.4, sys.argv[1]):\n    import job",
    )
    assert ended.returncode == 1
    assert "a function did not return: job.py:3 in <module>" in last_words(str(tmp_path / "words"))


def test_one_that_has_loaded_is_left_alone(tmp_path: Path) -> None:
    program = (
        "import time\nfrom flamestream.loop.watchdog import limited\nwith limited(0.4, sys.argv[1]):\n    "
        "pass\ntime.sleep(1)"
    )
    assert lived(tmp_path, program).returncode == 0
    assert not (tmp_path / "words").exists()


def test_a_loop_that_turns_is_left_alone(tmp_path: Path) -> None:
    ended = lived(tmp_path, "reactor.later(1.5, reactor.stop); reactor.run(lambda: None)")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert last_words(str(tmp_path / "words")) == ""


def test_without_a_file_its_end_is_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "users.py").write_text(USERS["asleep"][0])
    ended = lived(
        tmp_path, "import users; sys.argv[1] = ''\nWatchdog(reactor, '', 0.2).begin(); users.forever()"
    )
    assert ended.returncode == 1 and "users.py" in ended.stderr


def test_a_file_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "words").symlink_to(tmp_path / "other")

    class Nobody:
        """A reactor that is not asked."""

    assert Watchdog(Nobody(), str(tmp_path / "words"))._file == STDERR  # type: ignore[arg-type]
    assert not (tmp_path / "other").exists()


def test_nothing_is_made_of_what_is_no_dump() -> None:
    assert explained("") == explained("Thread 0x01\nnothing") == ""
