"""Attacks on a live job, and what each costs others: `make attacks` (run.py).

What is said and sent (http_words.py, control_words.py) is shared with the tests of each part.
"""
