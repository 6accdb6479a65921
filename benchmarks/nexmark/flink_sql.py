"""The queries in Flink's SQL, as nexmark/nexmark has them, over JSON lines of a file or of a socket.

Source: github.com/nexmark/nexmark, nexmark-flink/src/main/resources/queries.
"""

from pathlib import Path
from typing import Final

TABLES: Final = """
CREATE TEMPORARY FUNCTION count_char AS 'peer.CountChar';
CREATE TABLE events (
  `type` STRING, id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
  itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, expires BIGINT, seller BIGINT,
  category BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
  `dateTime` BIGINT, extra STRING, `at` AS TO_TIMESTAMP_LTZ(`dateTime`, 3),
  WATERMARK FOR `at` AS `at` - INTERVAL '4' SECOND
) WITH ({source}, 'format' = 'json');
CREATE VIEW person AS
  SELECT id, name, emailAddress, creditCard, city, state, `at`, extra FROM events WHERE `type` = 'Person';
CREATE VIEW auction AS
  SELECT id, itemName, description, initialBid, reserve, `at`,
    TO_TIMESTAMP_LTZ(expires, 3) AS expires, seller, category, extra
  FROM events WHERE `type` = 'Auction';
CREATE VIEW bid AS
  SELECT auction, bidder, price, channel, url, `at`, extra FROM events WHERE `type` = 'Bid';
CREATE VIEW arriving AS SELECT *, PROCTIME() AS arrived FROM bid;
"""
_DAY = "DATE_FORMAT(`at`, 'yyyy-MM-dd')"
_MINUTE = "DATE_FORMAT(`at`, 'HH:mm')"
_RANKS = ("TRUE", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
_COUNTS = ", ".join(f"COUNT(*) FILTER (WHERE {rank})" for rank in _RANKS)
_DISTINCT = ", ".join(
    f"COUNT(DISTINCT {each}) FILTER (WHERE {rank})" for each in ("bidder", "auction") for rank in _RANKS
)
_CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_HOPS = """
  SELECT auction, COUNT(*) AS num, window_start, window_end
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`at`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end"""

FLINK_SQL: Final[dict[str, str]] = {
    "q0": "SELECT auction, bidder, price, `at`, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price, `at`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": """
        SELECT Q.category, AVG(Q.final) FROM (
          SELECT MAX(B.price) AS final, A.category FROM auction A, bid B
          WHERE A.id = B.auction AND B.`at` BETWEEN A.`at` AND A.expires GROUP BY A.id, A.category) Q
        GROUP BY Q.category""",
    "q5": f"""
        SELECT AuctionBids.auction, AuctionBids.num FROM ({_HOPS}) AS AuctionBids
        JOIN (SELECT MAX(num) AS maxn, window_start, window_end FROM ({_HOPS})
          GROUP BY window_start, window_end) AS MaxBids
        ON AuctionBids.window_start = MaxBids.window_start AND AuctionBids.window_end = MaxBids.window_end
          AND AuctionBids.num >= MaxBids.maxn""",
    "q7": """
        SELECT B.auction, B.bidder, B.price, B.`at`, B.extra FROM bid B
        JOIN (SELECT MAX(price) AS maxprice, window_end AS ends
          FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`at`), INTERVAL '10' SECOND))
          GROUP BY window_start, window_end) B1
        ON B.price = B1.maxprice WHERE B.`at` BETWEEN B1.ends - INTERVAL '10' SECOND AND B1.ends""",
    "q8": """
        SELECT P.id, P.name, P.window_start
        FROM (SELECT id, name, window_start, window_end
          FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`at`), INTERVAL '10' SECOND))
          GROUP BY id, name, window_start, window_end) P
        JOIN (SELECT seller, window_start, window_end
          FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`at`), INTERVAL '10' SECOND))
          GROUP BY seller, window_start, window_end) A
        ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end""",
    "q9": """
        SELECT id, itemName, description, initialBid, reserve, `at`, expires, seller, category, extra,
          auction, bidder, price, bid_at, bid_extra
        FROM (SELECT A.*, B.auction, B.bidder, B.price, B.`at` AS bid_at, B.extra AS bid_extra,
            ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`at` ASC) AS rownum
          FROM auction A, bid B WHERE A.id = B.auction AND B.`at` BETWEEN A.`at` AND A.expires)
        WHERE rownum <= 1""",
    "q10": f"SELECT auction, bidder, price, `at`, extra, {_DAY}, {_MINUTE} FROM bid",
    "q11": """
        SELECT bidder, COUNT(*),
          SESSION_START(`at`, INTERVAL '10' SECOND), SESSION_END(`at`, INTERVAL '10' SECOND)
        FROM bid GROUP BY bidder, SESSION(`at`, INTERVAL '10' SECOND)""",
    "q12": """
        SELECT bidder, COUNT(*), window_start, window_end
        FROM TABLE(TUMBLE(TABLE arriving, DESCRIPTOR(arrived), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q14": """
        SELECT auction, bidder, 0.908 * price,
          CASE WHEN HOUR(`at`) >= 8 AND HOUR(`at`) <= 18 THEN 'dayTime'
            WHEN HOUR(`at`) <= 6 OR HOUR(`at`) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
          `at`, extra, count_char(extra, 'c')
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY}, {_COUNTS}, {_DISTINCT} FROM bid GROUP BY {_DAY}",
    "q16": f"""
        SELECT channel, {_DAY}, MAX({_MINUTE}), {_COUNTS}, {_DISTINCT}
        FROM bid GROUP BY channel, {_DAY}""",
    "q17": f"""
        SELECT auction, {_DAY}, {_COUNTS}, MIN(price), MAX(price), AVG(price), SUM(price)
        FROM bid GROUP BY auction, {_DAY}""",
    "q18": """
        SELECT auction, bidder, price, channel, url, `at`, extra
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `at` DESC) AS rank_number
          FROM bid)
        WHERE rank_number <= 1""",
    "q19": """
        SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
          FROM bid)
        WHERE rank_number <= 10""",
    "q20": """
        SELECT auction, bidder, price, channel, url, B.`at`, B.extra,
          itemName, description, initialBid, reserve, A.`at`, expires, seller, category, A.extra
        FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id WHERE A.category = 10""",
    "q21": f"""
        SELECT auction, bidder, price, channel,
          CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
            WHEN 'baidu' THEN '3' ELSE {_CHANNEL_ID} END
        FROM bid
        WHERE {_CHANNEL_ID} IS NOT NULL OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel,
          SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5)
        FROM bid""",
}


LEFT_OUT: Final = {
    "q6": "an OVER window takes no rows that are withdrawn (FLINK-19059)",
    "q13": "the side input is a file, which Flink 2.3 cannot look up",
}
"""Why Flink SQL has no such query."""
KEYS: Final = {"q9": 1}
"""Columns of a key whose last row replaces those before it, where Flink withdraws none."""


def from_file(events: Path) -> str:
    """Where events come from: the lines of a file, to its end."""
    return f"'connector' = 'filesystem', 'path' = '{events}'"


def outside(address: str, folder: Path | str = "") -> str:
    """An end outside: a producer's socket, or a consumer's with a folder for transactions (peers/flink,
    OutsideTables)."""
    return f"'connector' = 'outside', 'address' = '{address}'" + (
        f", 'folder' = '{folder}'" if folder else ""
    )


def to_consumer(address: str, folder: Path) -> str:
    """Where results go: each change as a line of JSON behind its kind, at the end of its checkpoint."""
    return f"{outside(address, folder)}, 'format' = 'json', 'json.encode.decimal-as-plain-number' = 'true'"


NOWHERE: Final = "'connector' = 'blackhole'"


def script(query: str, source: str, sink: str = NOWHERE) -> str:
    """The statements that run a query from one end to the other."""
    return f"{TABLES.format(source=source)}{into(query, sink)}"


def into(query: str, sink: str) -> str:
    """The statement that writes a query's results to an end, behind `TABLES`."""
    return f"CREATE TABLE {query}_results WITH ({sink}) AS {FLINK_SQL[query]};\n"
