"""A seeded corpus with Zipf-distributed words: document `i` has the same bytes in every run.

Lengths are log-normal around `mean` words (20 to 4000); the vocabulary has 60,000 words with exponent 1.05,
close to English prose.

    python benchmarks/harness/corpus.py 1000 250 > docs.tsv        # one line a document: number<TAB>words
"""

import itertools
import random
import sys
from bisect import bisect_left
from collections.abc import Iterator

VOCABULARY = 60_000


def documents(count: int, mean: int = 250, seed: int = 7) -> Iterator[str]:
    """`count` lines of `number<TAB>words`."""
    rng = random.Random(seed)
    words = [_word(rank) for rank in range(VOCABULARY)]
    weights = list(itertools.accumulate(1.0 / (rank + 1) ** 1.05 for rank in range(VOCABULARY)))
    for number in range(count):
        length = max(20, min(4000, int(rng.lognormvariate(0, 0.8) * mean)))
        chosen = (words[bisect_left(weights, rng.random() * weights[-1])] for _ in range(length))
        yield f"{number}\t{' '.join(chosen)}"


def _word(rank: int) -> str:
    letters, rank = "", rank + 26
    while rank:
        rank, letter = divmod(rank, 26)
        letters = chr(97 + letter) + letters
    return letters


if __name__ == "__main__":
    for line in documents(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 250):
        sys.stdout.write(line + "\n")
