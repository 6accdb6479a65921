"""Traces as they are taken: by OpenTelemetry's collector, and of workers of the core."""
