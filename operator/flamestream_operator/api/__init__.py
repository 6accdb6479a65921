"""The types of the API: what the CRDs are generated from and what statuses are written with."""
