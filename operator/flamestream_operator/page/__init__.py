"""The page of all jobs of a cluster: ui/ of the runtime, behind a door that asks the API server."""
