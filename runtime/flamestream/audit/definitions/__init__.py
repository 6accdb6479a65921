"""Definitions 5 to 10 of the delivery paper, each as a function of a history and of what should have been
computed.

    5   an output is consistent: one run over what had entered before it gives it, and all outputs before it
    6   exactly-once: all outputs are, and the run takes every item once
    7   at-most-once: the same of a run that leaves items out
    8   at-least-once: the same of a run that takes items again
    9   non-commutative: the order of items changes what comes out
    10  deterministic: the same timed input gives the same output in every run

As printed, a result may be under way for ever: 6 does not see lost output, and none sees the order of
outputs. Strict also asks that nothing is skipped and that order is kept.

Keeps: a search that reaches its bound says undecided. Does not: read anything.
Source: "Delivery, consistency and determinism" (the delivery paper), definitions 5 to 10.
"""
