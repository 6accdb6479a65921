"""What a Kafka source and a Kafka sink share: clients, errors, payload formats, reading to an end. Needs the extra `kafka`."""
