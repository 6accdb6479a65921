"""A whole job with real cores in a false world, on one thread in virtual time from one seed."""
