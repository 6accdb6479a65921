"""The documentation as a site, in `site/`, with every link checked.

What renders it has an environment of its own, made from pins: nothing of the product needs it.
"""

import os
import sys

from setup import REQUIREMENTS, ROOT, SetupError, pinned_environment, run


def main() -> None:
    try:
        python = pinned_environment(ROOT / ".venv-docs", REQUIREMENTS / "docs.txt")
        mkdocs = str(python.with_name("mkdocs"))
        run(mkdocs, "build", "--strict", environment={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, cwd=ROOT)
    except SetupError as error:
        sys.exit(f"docs: {error}")


if __name__ == "__main__":
    main()
