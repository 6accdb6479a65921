"""Traces of runs and of recoveries, by OpenTelemetry: what a worker does, told to whoever collects it.

All of it stands around the worker's core: it hears the events and the actions that the core has, and changes
nothing in what is computed. Without `tracing` in the manifest nothing of it is imported.
"""
