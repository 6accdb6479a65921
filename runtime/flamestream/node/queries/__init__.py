"""Queries from outside: which key is meant, and who answers."""
