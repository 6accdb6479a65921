"""Frames over TCP: a source that dials a producer and a sink that dials a consumer. docs/wire-protocol.md."""
