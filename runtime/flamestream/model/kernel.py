"""Kernel: the hot paths in native code (folder `native`), if this installation was built with them; None
otherwise.

Everything in it mirrors a Python module, which is the reference: same calls, same results, and tests hold the
two to each other. So a machine without a Rust compiler runs the same jobs, some times slower; `flamestream
status` says which one runs.

Keeps: a kernel that does not fit, of another Python or of another version of FlameStream, is refused with a
sentence; it never ends the process that finds it. Does not: say so to anybody (`flamestream run`, `doctor`
and each worker's log do).
"""

from importlib import import_module
from types import ModuleType
from typing import Final

API: Final = 11
"""Version of the calls between Python and the kernel; native/src/lib.rs has the same number. Both grow when a
call changes."""
_MODULE: Final = "flamestream._kernel"


def found() -> tuple[ModuleType | None, str]:
    """The kernel, or None and why there is none."""
    try:
        module = import_module(_MODULE)
    except ModuleNotFoundError:
        return None, "this installation was built without it"
    except ImportError as error:  # of another interpreter, processor or C library
        return None, f"the one that is here does not fit this machine: {error}"
    given = getattr(module, "API", 0)
    if given != API:
        return (
            None,
            f"the one that is here speaks version {given}, and this FlameStream version {API}: "
            "they are not of one build",
        )
    return module, ""


kernel, WHY_NOT = found()
NAME = "Python" if kernel is None else "native"
"""The kind of kernel that `flamestream status` shows."""
