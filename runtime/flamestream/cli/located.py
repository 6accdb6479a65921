"""A YAML document that remembers on which line each field stands, so that an error can point at it.

>>> document = parse("spec:\\n  workers: {replicas: 2}\\n", "job.yaml")
>>> document.value
{'spec': {'workers': {'replicas': 2}}}
>>> document.where(("spec", "workers", "replicas"))
'job.yaml:2: spec.workers.replicas'

Keeps: a key that is there twice is an error, never the last one silently. Does not: know what a manifest is (manifest.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from flamestream.model.errors import ManifestError

Path = tuple[str | int, ...]
MAX_DEPTH: Final = 20
"""Also what ends a document that refers to itself."""


@dataclass(frozen=True, slots=True)
class Document:
    """Plain values, and the line of each."""

    value: Any
    file: str
    lines: dict[Path, int]

    def where(self, path: Path) -> str:
        """`file:line: field`, of the deepest part of `path` that the document has."""
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        return f"{self.file}:{self.lines.get(known, 1)}: {dotted(path)}"


def dotted(path: Sequence[str | int]) -> str:
    """How messages write a path: spec.sources.docs."""
    return ".".join(str(part) for part in path) or "the document"


def parse(text: str, file: str) -> Document:
    """The one document in `text`. Raises ManifestError with file and line."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise ManifestError(f"{file}:1: the file is empty: a FlameStreamJob starts with apiVersion and kind")
        lines: dict[Path, int] = {}
        _note(node, (), lines, file)
        return Document(loader.construct_document(node), file, lines)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or str(error)
        raise ManifestError(f"{file}:{line}: this is not YAML: {problem}") from error
    finally:
        loader.dispose()


def _note(node: yaml.Node, path: Path, lines: dict[Path, int], file: str) -> None:
    if len(path) > MAX_DEPTH:
        raise ManifestError(f"{file}:{node.start_mark.line + 1}: {dotted(path[:3])} nests deeper than {MAX_DEPTH} levels: no field does")
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note(item, (*path, index), lines, file)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            line = key.start_mark.line + 1
            if inner in lines:
                raise ManifestError(f"{file}:{line}: {dotted(inner)} is there twice (first on line {lines[inner]}): keep one of them")
            lines[inner] = line
            _note(value, inner, lines, file)
