"""Nexmark: the auction's events and their 23 queries (q0 to q22), ours beside SQL that others wrote."""
