"""The shell around the core: the API server, the caches, the queue, the Lease, metrics, and kopf."""
