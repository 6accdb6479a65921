"""The journal: order decisions of fronts, and the places where it is kept: a folder, ZooKeeper, a compacted
topic."""
