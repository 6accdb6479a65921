"""FlameStreamSnapshots: savepoints asked for and by the clock, and the long operations on a store."""
