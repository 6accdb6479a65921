"""Calls in DataFrame jobs: the answers that a stream has kept, beside the requests that a job makes.

Does not: make a call.
"""
