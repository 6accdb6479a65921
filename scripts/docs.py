"""The documentation as a site, in `site/`, with every link checked.

What renders it has an environment of its own, made from pins: nothing of the product needs it.
"""

import os
import sys

from setup import REQUIREMENTS, ROOT, find_uv, run

VENV = ROOT / ".venv-docs"
PINS = REQUIREMENTS / "docs.txt"
MADE_FROM = VENV / "pins"


def main() -> None:
    if not MADE_FROM.exists() or MADE_FROM.read_bytes() != PINS.read_bytes():
        uv = find_uv()
        run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(VENV))
        run(uv, "pip", "sync", "--quiet", "--require-hashes", "--python", str(VENV / "bin" / "python"), str(PINS))
        MADE_FROM.write_bytes(PINS.read_bytes())
    os.chdir(ROOT)
    run(str(VENV / "bin" / "mkdocs"), "build", "--strict", environment={**os.environ, "NO_MKDOCS_2_WARNING": "1"})


if __name__ == "__main__":
    main()
