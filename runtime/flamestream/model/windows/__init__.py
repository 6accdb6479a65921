"""Windows: what is said with event time, as compositions of the graph's own vertices."""
