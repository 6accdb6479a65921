"""Kernel: the hot paths in native code (folder `native`), if this installation was built with them; None otherwise.

Everything in it mirrors a Python module, which is the reference: same calls, same results, and tests hold the two to each other. So a
machine without a Rust compiler runs the same jobs, some times slower; `flamestream status` says which one runs.
"""

from importlib import import_module
from types import ModuleType


def _kernel() -> ModuleType | None:
    try:
        return import_module("flamestream._kernel")
    except ModuleNotFoundError:
        return None


kernel = _kernel()
NAME = "Python" if kernel is None else "native"
"""What `flamestream status` calls it."""
