"""The kit that connectors are made with: specs, reading and writing by blocking calls, ledgers, and the form
of a payload outside."""
