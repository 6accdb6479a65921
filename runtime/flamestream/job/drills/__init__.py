"""Drills: faults on purpose, what was seen of them, and what is told."""
