"""What connectors are made with: specs, reading and writing by blocking calls, ledgers, and what a payload
looks like outside."""
