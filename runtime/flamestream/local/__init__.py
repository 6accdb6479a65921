"""A job on one machine: started, watched and ended together."""
