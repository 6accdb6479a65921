"""A job's state and output as Spark tables, cell by cell. Run the job first, then the cells (VS Code and
Jupyter know `# %%`), or the file.

flamestream run examples/word_count.yaml
python examples/word_count_tables.py
"""

# %% a session that knows the format
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flamestream.spark.tables import register

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the Python of Spark's tasks is this one
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
register(spark)
manifest = Path(__file__).with_name("word_count.yaml")


def job():
    """A reader keeps the options that it was given, so each look has one of its own."""
    return spark.read.format("flamestream").option("manifest", str(manifest))


# %% what was delivered: a row for each result, in the total order
totals = job().option("sink", "counts").option("columns", "true").load()
totals.orderBy("meta").select("slot", "sequence", "word", "count").show(5)

# %% the newest total of each word: an ordinary query
newest = totals.groupBy("word").agg(F.max("count").alias("count"))
newest.orderBy(F.desc("count"), "word").show(5)

# %% only some slots: the bundles of others are not decoded
some = job().option("sink", "counts").option("slots", "0-63").load()
print(f"{some.count()} of {totals.count()} results are in the first quarter of the slots")

# %% the committed state: what the next run would begin with
state = job().load()
state.select("name", "slot", "key", "state").orderBy("key").show(5, truncate=60)
