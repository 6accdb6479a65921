"""Transactions over an outside of their own, beside a database, a cache and plain loops."""
