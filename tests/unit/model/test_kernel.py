"""The native kernel: one that does not fit is refused with a sentence. The allocator survives the thread that
loaded it."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import flamestream
from flamestream.model import kernel as module
from flamestream.model.kernel import kernel

PROGRAM = """if True:
    import os
    from flamestream.model.kernel import kernel
    earlier = [str(number) for number in range(200_000)]
    kernel.huge_arenas()
    kernel.huge_arenas()  # a second time changes nothing

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    def fill():
        return {number: str(number) for number in range(1_000_000)}

    before, peaks = resident(), []
    for _ in range(3):
        many = fill()
        assert all(many[number] == str(number) for number in range(0, 1_000_000, 997))
        peaks.append(resident())
        child = os.fork()
        if not child:
            os._exit(0 if len(fill()) == 1_000_000 else 1)
        assert os.waitpid(child, 0)[1] == 0, "a child of a fork has no thread that prepares arenas, and needs none"
        del many, earlier[:50_000]
    assert peaks[0] - before > 60, (before, peaks)
    assert peaks[2] - peaks[1] < 20, f"what was given back is used again: {before} {peaks}"
    assert resident() < peaks[0] / 2, f"it is given back: {before} {peaks} {resident()}"
"""


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel")
def test_python_lives_on_huge_arenas() -> None:
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


LOADED_BY_A_THREAD = """if True:
    import threading

    def use():
        from flamestream.model import payload
        data = payload.encode_items([(b"12345678", ("word", number, (1, 2, 3) * 20)) for number in range(2000)])
        for _ in range(5):
            [payload.encode(value) for _, value in payload.decode_items(data)]

    for _ in range(50):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    use()
"""


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel")
def test_it_may_be_loaded_by_a_thread_that_ends() -> None:
    """An allocator that takes its first thread for the main one loses everything when that thread ends."""
    subprocess.run(
        [sys.executable, "-c", LOADED_BY_A_THREAD],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_kernel_of_another_build_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flamestream._kernel", SimpleNamespace(API=module.API + 1))
    assert module.found() == (
        None,
        f"the one that is here speaks version {module.API + 1}, and this FlameStream version {module.API}: "
        "they are not of one build",
    )


FOREIGN = """if True:
    import sys
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import spec_from_file_location

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "flamestream._kernel":
                return spec_from_file_location(name, sys.argv[1], loader=ExtensionFileLoader(name, sys.argv[1]))

    sys.meta_path.insert(0, Finder())
    from flamestream.core.dataflow.parts import REFERENCE
    from flamestream.model.kernel import WHY_NOT, kernel
    from flamestream.node.worker_process import FASTEST

    assert kernel is None and FASTEST is REFERENCE
    print(WHY_NOT)
"""


def test_a_library_of_another_machine_is_refused_with_a_sentence_and_a_worker_goes_on(tmp_path: Path) -> None:
    library = tmp_path / "_kernel.abi3.so"
    library.write_bytes(b"\x7fELF of another processor")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", FOREIGN, library], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the one that is here does not fit this machine: ")


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel")
def test_the_kernel_says_which_one_it_is() -> None:
    assert kernel is not None
    assert kernel.API == module.API and flamestream.__version__ == kernel.VERSION
