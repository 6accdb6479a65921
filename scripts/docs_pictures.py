"""Pictures in Mermaid, drawn without the network: the site has the script itself, and only pages with a
picture load it.

The theme fetches Mermaid from a network unless the page has it already. The file comes with mermaidx, whose
wheel is pinned by hash; it is byte for byte that of Mermaid's own package.

Does not: draw. The reader's browser does, in the theme's colours.
"""

import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SCRIPT = "assets/mermaid.js"


def on_post_page(output: str, page: Any, config: Mapping[str, Any]) -> str:  # the names are mkdocs's
    """A page, with the script ahead of the theme's own if it has a picture."""
    if 'class="mermaid"' not in output:
        return output
    return output.replace(
        "</head>", f'<script src="{"../" * page.url.count("/")}{SCRIPT}"></script></head>', 1
    )


def on_post_build(config: Mapping[str, Any]) -> None:
    package = find_spec("mermaidx")
    assert package is not None and package.origin is not None, "requirements/docs.txt has it"
    shutil.copy(Path(package.origin).with_name("assets") / "mermaid.js", Path(config["site_dir"]) / SCRIPT)
