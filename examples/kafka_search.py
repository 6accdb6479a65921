"""An inverted index from Kafka to PostgreSQL, which search_page.py searches: the index is the newest row of
each word and document.

A record is JSON: {"name": "1.txt", "text": "To be, or not to be"}. See kafka_search.yaml for how to run it.
"""

from inverted_index import appended, change, word_of, words

import flamestream as fs


def document(record: "fs.Map[str, str]") -> fs.Document:
    return fs.Document(record["name"], record["text"])


graph = fs.Graph("kafka-search")
postings = graph.source("docs").map(document).flat_map(words)
index = postings.reduce(key=word_of, initial=fs.Vector, combine=appended, emit=change)
index.sink("index", key=word_of)
