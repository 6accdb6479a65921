"""Servers that several modules share."""

from support.kafka_broker import broker as broker
