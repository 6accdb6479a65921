"""How an item passes the graph: placing, keyed state, user functions, the barrier that holds results, and
delivery; in Python and in the kernel.
"""
