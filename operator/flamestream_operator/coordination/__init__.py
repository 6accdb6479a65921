"""The coordinators of all jobs of this leader: one loop, in which no job can hurt another."""
