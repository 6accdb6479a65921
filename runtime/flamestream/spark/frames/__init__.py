"""A graph as DataFrame jobs: what the batch runner, the micro-batch runner and the Spark audit have in
common."""
