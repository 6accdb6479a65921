"""Frames over TCP: a source that dials a producer and a sink that dials a consumer.
docs/reference/wire-protocol.md."""
