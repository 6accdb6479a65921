"""A package of somebody else's with a connector, `shelf`: a source of the lines of a file, and a sink of logs
in a folder."""

from pathlib import Path

CODE = '''
from pathlib import Path

from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.connector import Connector, SinkSettings, SourceSettings, SourceTraits
from flamestream.connectors.kit.folder import Writing
from flamestream.connectors.kit.producer import Chunk, ReadingProducer
from flamestream.fenced.fences import FencedFolder
from flamestream.fenced.reading import read_items
from flamestream.model.ids import Offset, Partition


class ShelfSource(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Lines of a file."""

    file_settings = ("path",)
    path: str
    """The file."""

    def traits(self, where):
        return SourceTraits(timed=True, run_length=4, replayable=True, bounded=True)

    def producer(self, context):
        return ReadingProducer(Lines(Path(self.path)), context.front, context.post, context.reactor)


class ShelfSink(SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Logs in a folder."""

    file_settings = ("path",)
    reads_back = True
    path: str
    """The folder."""

    def consumer(self, context):
        writing = Writing(FencedFolder(Path(self.path)), False, context.job, context.name, context.writer)
        return BlockingConsumer(writing, context.name, context.post, context.reactor)

    def read(self, where, job, sink):
        return read_items(Path(self.path), (job, sink) if job else None)


class Lines:
    ended, idle_seconds, problem = False, 0.0, ""

    def __init__(self, file):
        self.file = file

    def seek(self, offsets):
        self.at, self.ended = int(offsets.get(Partition(""), 0)), False

    def next(self, records, size):
        lines = self.file.read_text().splitlines()[self.at :][:records]
        self.at, first = self.at + len(lines), self.at
        self.ended = not lines
        return [Chunk(Partition(""), Offset(first), lines, [len(line) for line in lines])] if lines else []

    def read(self, entry):
        raise AssertionError("a timed source is not asked for a run")


SHELF = Connector("shelf", ShelfSource, ShelfSink)
TAKEN = Connector("files", ShelfSource, ShelfSink)
'''


def installed(site: Path, entry: str = "shelf = shelf_connector:SHELF") -> Path:
    """A folder for the path of Python, with the package as an installer leaves it."""
    about = site / "shelf_connector-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "shelf_connector.py").write_text(CODE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf-connector\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[flamestream.connectors]\n{entry}\n")
    return site
