"""FlameStreamJobs: what is observed -> what is decided (a status) -> what is to be done. Pure, but for the
reconciler and what carries out."""
