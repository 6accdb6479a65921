"""Concatenation: the smallest job whose result depends on the order of its input.

Letters a, b, c give a, ab, abc. An engine that lets b overtake a, even once and even around a crash, gives b,
ba, bac instead, and a consumer that has seen abc and bac can no longer be told which input there was: the
delivery paper's example of why exactly-once needs one order that every recovery repeats.
"""

import flamestream as fs


def one_key(letter: str) -> str:
    return "all"


def appended(text: str, letter: str) -> str:
    return text + letter


graph = fs.Graph("concatenation")
graph.source("letters").reduce(key=one_key, initial=str, combine=appended).sink("texts", key=one_key)
