"""What payloads are made of: which types there are, and how each becomes bytes and comes back."""
