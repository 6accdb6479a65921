"""Callers and the services that they ask."""
