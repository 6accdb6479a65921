"""How to reach Kafka: clients, whose fault its errors are, reading to an end. Needs the extra `kafka`."""
