"""What each field of a manifest changes, as tests can see it."""
