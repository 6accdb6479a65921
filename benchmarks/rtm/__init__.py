"""Spark's three real-time jobs between Kafka topics: Spark's real-time mode, its micro-batches, and ours."""
