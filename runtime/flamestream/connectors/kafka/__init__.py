"""Kafka: topics as source and sink. Needs the extra `kafka`."""
