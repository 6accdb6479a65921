"""Connectors of one's own: a class of the user's that a manifest names, as a source or a sink.

    sinks: {index: {connector: {class: sqlite_sink:SqliteSink, settings: {path: index.db}}}}

The class is found as the application is: its module lies beside the application's file, or is installed. A sink's class is a `Blocking`
(connectors/kit/blocking.py) that is made with (settings, sink, writer, job) and says `fences`; a source's is a `Reader`
(connectors/kit/producer.py) made with (settings, name) that says `timed` and `bounded`. docs/reference/connectors.md shows both, and how
to run them through the conformance kits.

Does not: check what the class does (the kits do), or make paths in its settings relative to the manifest.
"""

from typing import Any

import msgspec

from flamestream.connectors.kit.spec import function_of
from flamestream.model.errors import ManifestError


class Connector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"cls": "class"}):
    """A class (`module:Class`) and its settings."""

    cls: str
    """module:Class, beside the application's file, in `pyFiles` or installed."""
    settings: dict[str, Any] = {}
    """Handed to the class as they are."""

    @property
    def name(self) -> str:
        """For messages."""
        return self.cls.rpartition(":")[2]


def sink_class(spec: Connector, where: str) -> Any:
    """The class of a sink. Raises ManifestError if it is not there, or does not look like one."""
    return _class(spec, where, ("open", "deliver", "close"), {"fences": "whether it keeps last bundles and refuses older fences"})


def source_class(spec: Connector, where: str) -> Any:
    """The class of a source."""
    says = {"timed": "whether its order is fixed for ever", "bounded": "whether it ends"}
    return _class(spec, where, ("seek", "next", "read"), says)


def _class(spec: Connector, where: str, methods: tuple[str, ...], says: dict[str, str]) -> Any:
    found: Any = function_of(spec.cls, f"{where}.class")
    for name in methods:
        if not callable(getattr(found, name, None)):
            raise ManifestError(f"{where}.class: {spec.cls} has no method `{name}`; see docs/reference/connectors.md")
    for name, meaning in says.items():
        if not isinstance(getattr(found, name, None), bool):
            raise ManifestError(f"{where}.class: {spec.cls} must say `{name} = True` or `False`: {meaning}")
    return found
