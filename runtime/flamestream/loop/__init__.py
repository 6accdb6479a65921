"""The one loop of a process, and the threads beside it: the reactor, blocking calls in order, the collector,
the watchdog."""
