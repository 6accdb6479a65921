"""FlameStream on Spark: streaming jobs as graphs of pure functions, exactly once in milliseconds."""

from flamestream.model.collections import Map, Set, Vector
from flamestream.model.graph import Graph, Loop, Stream
from flamestream.model.payload import payload_type
from flamestream.model.records import Document, KafkaRecord

__all__ = ["Document", "Graph", "KafkaRecord", "Loop", "Map", "Set", "Stream", "Vector", "payload_type"]
__version__ = "0.1.0"
