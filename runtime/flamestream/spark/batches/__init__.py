"""A job whose results leave by the batch: micro-batches under a cluster's coordinator, and what a manifest
says for DataFrames."""
