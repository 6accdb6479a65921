"""Mutation runs: how many small breaks of the pure cores do their tests notice? The command is run.py."""
