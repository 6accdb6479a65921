"""Clients and servers of HTTP for tests, down to single bytes."""
