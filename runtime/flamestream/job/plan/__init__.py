"""The plan of a graph, as a person reads it: its drawing, and which functions run in the kernel."""
