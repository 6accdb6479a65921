"""Payloads: which types there are, and how each becomes bytes and comes back."""
