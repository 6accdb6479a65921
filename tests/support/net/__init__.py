"""Peers of TCP connections for tests: one in the middle, and one that is killed."""
