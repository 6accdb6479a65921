"""Connectors of one's own: a class of the user's that a manifest names, as a source or a sink.

    sinks: {index: {connector: {class: sqlite_sink:SqliteSink, settings: {path: index.db}}}}

The class is found as the application is: its module lies beside the application's file, or is installed. A
sink's class is a `Blocking` (connectors/kit/blocking.py) that is made with (settings, sink, writer, job) and
says `fences`; a source's is a `Reader` (connectors/kit/producer.py) made with (settings, name) that says
`timed` and `bounded`. docs/reference/connectors.md shows both, and how to run them through the conformance
kits.

Does not: check what the class does (the kits do), or make paths in its settings relative to the manifest.
"""

from typing import Any, Final

from flamestream.connectors.kit import connector as kit
from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.producer import ReadingProducer
from flamestream.connectors.kit.spec import MAX_RUN_LENGTH, function_of
from flamestream.model.errors import ManifestError
from flamestream.ports import Consumer, Producer


class _Own(kit.Settings, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"cls": "class"}):
    """A class (`module:Class`) and its settings."""

    cls: str
    """module:Class, beside the application's file, in `pyFiles` or installed."""
    settings: dict[str, Any] = {}
    """Handed to the class as they are."""


class OwnSource(_Own, kit.SourceSettings, frozen=True, kw_only=True):
    """A class (`module:Class`) and its settings."""

    of_application = True

    def traits(self, where: str) -> kit.SourceTraits:
        found = self._found(where)
        return kit.SourceTraits(
            found.timed,
            MAX_RUN_LENGTH if found.timed else 0,
            replayable=True,
            bounded=found.bounded,
            skips=True,
        )

    def outline(self, where: str) -> kit.SourceTraits:
        """Only that it is one front, perhaps journalled: its class is the application's."""
        return kit.SourceTraits(timed=False, run_length=0, replayable=True, bounded=False)

    def producer(self, context: kit.SourceContext) -> Producer:
        made = self._found(context.where)(self.settings, context.name)
        return ReadingProducer(made, context.front, context.post, context.reactor)

    def _found(self, where: str) -> Any:
        says = {"timed": "whether its order is fixed for ever", "bounded": "whether it ends"}
        return _class(self.cls, f"{where}.connector.class", ("seek", "next", "read"), says)


class OwnSink(_Own, kit.SinkSettings, frozen=True, kw_only=True):
    """A class (`module:Class`) and its settings."""

    def traits(self, where: str) -> kit.SinkTraits:
        return (
            kit.SinkTraits(True)
            if self._found(where).fences
            else kit.cannot_fence(where, self.cls.rpartition(":")[2])
        )

    def consumer(self, context: kit.SinkContext) -> Consumer:
        made = self._found(context.where)(self.settings, context.name, context.writer, context.job)
        return BlockingConsumer(made, context.name, context.post, context.reactor)

    def _found(self, where: str) -> Any:
        says = {"fences": "whether it keeps last bundles and refuses older fences"}
        return _class(self.cls, f"{where}.connector.class", ("open", "deliver", "close"), says)


OWN_SOURCE: Final = kit.Connector("connector", source=OwnSource)
OWN_SINK: Final = kit.Connector("connector", sink=OwnSink)


def _class(cls: str, where: str, methods: tuple[str, ...], says: dict[str, str]) -> Any:
    found: Any = function_of(cls, where)
    for name in methods:
        if not callable(getattr(found, name, None)):
            raise ManifestError(f"{where}: {cls} has no method `{name}`; see docs/reference/connectors.md")
    for name, meaning in says.items():
        if not isinstance(getattr(found, name, None), bool):
            raise ManifestError(f"{where}: {cls} must say `{name} = True` or `False`: {meaning}")
    return found
