"""Storage that outlives processes: object stores in a folder and in S3, segments and snapshots in them, and
the job record in ZooKeeper."""
