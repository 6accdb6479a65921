"""A sink's output: its topic, how its records are made, and how its brokers are reached.

Does not: write (kafka/writing.py).
"""

from flamestream.connectors.kafka.connector import PARTITIONERS, KafkaSinkSpec
from flamestream.connectors.kafka.items import Records, tag_of
from flamestream.net.kafka.clients import Clients


class KafkaOutput:
    """The topic of one sink and the form of its records; what its writers share."""

    def __init__(self, spec: KafkaSinkSpec, job: str, sink: str) -> None:
        self.topic, self.job, self.sink = spec.topic, job, sink
        self.clients = Clients(spec, f"{job}-{sink}")
        self.records = Records(spec.value, spec.key, spec.partitioner, f"spec.sinks.{sink}.kafka")
        self.more = {"partitioner": spec.partitioner} if spec.partitioner in PARTITIONERS else {}
        """Settings of librdkafka's that its producers have beside ours."""
        self.traceparent = spec.traceparent
        self.low_latency = spec.form == "low-latency"
        self.canonical = spec.value == "payload"
        """Whether values are encoded payloads, which can be compared at a replay."""
        self.tag = tag_of(job, sink)
        self.where = f"sink {sink}: topic {spec.topic!r}"
