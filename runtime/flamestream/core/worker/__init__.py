"""A worker: one pass of events in, actions out. Its fronts, its share of the acks, its way into an attempt
and its work for epochs."""
