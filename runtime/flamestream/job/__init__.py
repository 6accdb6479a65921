"""A job before it runs: its manifest with the place of every error, its application, and whether both fit
together."""
