"""Connectors without an outside, for tests and benchmarks: generated numbers, a list in memory, a function,
nothing."""
