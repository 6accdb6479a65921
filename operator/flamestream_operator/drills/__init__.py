"""FlameStreamDrills: which fault is possible, how it strikes, and what is seen of it."""
