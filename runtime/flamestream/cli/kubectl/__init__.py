"""`kubectl flamestream`: the commands that look at and steer jobs in a cluster."""
