"""A YAML document that remembers on which line each field stands, so that an error can point at it.

>>> document = parse("spec:\\n  workers: {replicas: 2}\\n", "job.yaml")
>>> document.value
{'spec': {'workers': {'replicas': 2}}}
>>> document.where(("spec", "workers", "replicas"))
'job.yaml:2: spec.workers.replicas'

A few bytes of YAML can stand for gigabytes (aliases of aliases), or for more depth than a parser bears. So
the text, what it stands for when every alias is written out, and its depth are bounded before any value is
made.

Keeps: a key that is there twice is an error, never the last one silently; whatever the bytes are, the error
is a ManifestError. Does not: know what a manifest is (job/manifest.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from flamestream.model.errors import ManifestError

Path = tuple[str | int, ...]
MAX_DEPTH: Final = 20
"""Also what ends a document that refers to itself."""
MAX_CHARACTERS: Final = 1 << 20
MAX_VALUES: Final = 20_000
"""Fields and entries of lists, with every alias written out."""


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
    """A path as messages write it: spec.sources.docs."""
    return ".".join(str(part) for part in path) or "the document"


def parse(text: str, file: str) -> Document:
    """The one document in `text`. Raises ManifestError with file and line."""
    if len(text) > MAX_CHARACTERS:
        raise ManifestError(
            f"{file}: it has more than {MAX_CHARACTERS} characters: a manifest is shorter; "
            "keep data elsewhere"
        )
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:  # a character that YAML does not have
        raise ManifestError(f"{file}: this is not YAML: {error}") from error
    try:
        node = loader.get_single_node()
        if node is None:
            raise ManifestError(
                f"{file}:1: the file is empty: a FlameStreamJob starts with apiVersion and kind"
            )
        lines: dict[Path, int] = {}
        _note(node, (), lines, file)
        return Document(loader.construct_document(node), file, lines)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or str(error)
        raise ManifestError(f"{file}:{line}: this is not YAML: {problem}") from error
    except (ValueError, OverflowError) as error:  # a date or a number that there is not
        raise ManifestError(
            f"{file}: a value cannot be read: {error}; write it in quotes if it is a text"
        ) from error
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Refuses depth while it reads, since it calls itself for each level; `_note` says where it is too deep
    for a manifest."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1  # (!) before the recursion that depth would break
        if self._depth > 4 * MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"it nests deeper than {MAX_DEPTH} levels: no field does", mark
            )
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _note(node: yaml.Node, path: Path, lines: dict[Path, int], file: str) -> None:
    if len(path) > MAX_DEPTH:
        raise ManifestError(
            f"{file}:{node.start_mark.line + 1}: {dotted(path[:3])} nests deeper than {MAX_DEPTH} levels: "
            "no field does"
        )
    if len(lines) > MAX_VALUES:  # aliases are written out here, so a bomb is counted (!)
        where = f"{file}:{node.start_mark.line + 1}: {dotted(path[:3])}"
        raise ManifestError(
            f"{where}: more than {MAX_VALUES} values, with aliases (*name) written out: use fewer of them"
        )
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note(item, (*path, index), lines, file)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ManifestError(f"{file}:{line}: a key of {dotted(path)} is no text: write NAME: VALUE")
            inner = (*path, str(key.value))
            if inner in lines:
                raise ManifestError(
                    f"{file}:{line}: {dotted(inner)} is there twice (first on line {lines[inner]}): "
                    "keep one of them"
                )
            lines[inner] = line
            _note(value, inner, lines, file)
