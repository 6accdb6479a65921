"""Queries: states of keys for whoever asks while the stream runs, all of one time."""
