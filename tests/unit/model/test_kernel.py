"""Arenas on huge pages: Python lives on them as before, forks, and gives memory back. The allocator survives the thread that loaded it."""

import os
import subprocess
import sys

import pytest

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
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


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
    subprocess.run([sys.executable, "-c", LOADED_BY_A_THREAD], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
