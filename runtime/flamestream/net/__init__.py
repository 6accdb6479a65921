"""The network between two processes: frames, the handshake, TLS, links of workers, the control link, HTTP,
Kafka's clients."""
