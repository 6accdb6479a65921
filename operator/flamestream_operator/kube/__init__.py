"""Kubernetes, as the operator uses it: the API server, what was seen of the cluster, leadership, and the
queue of what to look at."""
