"""The messages between a coordinator and workers, as text: `python -m support.core.control_messages` writes those of
this release into the file that the next one is compared with."""

from pathlib import Path
from typing import Final

from flamestream.core.protocol.messages import ToCoordinator, ToWorker
from flamestream.core.protocol.vocabulary import described

BEFORE: Final = Path(__file__).parents[2] / "unit" / "core" / "protocol" / "control_messages.txt"
"""Those of the release that e2e/image/predecessor names."""

Words = dict[str, list[str]]


def today() -> Words:
    return described(ToCoordinator) | described(ToWorker)


def written(words: Words) -> str:
    return "".join(f"{name}\n" + "".join(f"    {each}\n" for each in words[name]) for name in sorted(words))


def read(text: str) -> Words:
    blocks = [block.split("\t") for block in text.replace("\n    ", "\t").splitlines()]
    return {name: words for name, *words in blocks}


if __name__ == "__main__":
    BEFORE.write_text(written(today()))
