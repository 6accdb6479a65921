"""A bank whose sum never changes, whoever is killed."""
