"""The queries q0 to q22 in DuckDB's SQL: the texts of nexmark/nexmark for Flink, said in another dialect.

| in Flink's text                                 | here |
|-------------------------------------------------|-----|
| a time                                          | milliseconds since 1970, in UTC |
| `HOP`, `TUMBLE`, `SESSION`                      | their arithmetic; a session ends where more than its gap passes |
| `0.908 * price`, a decimal of three places      | the same in thousandths |
| `AVG` of whole numbers, which Flink cuts off    | `sum // count` |
| `PROCTIME()`                                    | `arrival`: when the event came, by the generator |
| which of equals, where SQL leaves it open       | who came first; q18: last; q6: the lesser auction |
| q7's `BETWEEN`, which has both ends of a window | the window without its end, which belongs to the next one |
| a row that is withdrawn and replaced            | its last form only |

Source: github.com/nexmark/nexmark, nexmark-flink/src/main/resources/queries.
"""

from typing import Final

_DAY = "strftime(epoch_ms(dateTime), '%Y-%m-%d')"
_MINUTE = "strftime(epoch_ms(dateTime), '%H:%M')"
_RANKS = ("true", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
_COUNTS = ", ".join(f"count(*) FILTER ({rank})" for rank in _RANKS)
_DISTINCT = ", ".join(
    f"count(DISTINCT {each}) FILTER ({rank})" for each in ("bidder", "auction") for rank in _RANKS
)
_CHANNEL_ID = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_NAMED = "regexp_matches(url, '(&|^)channel_id=([^&]*)')"
_WINNING = """
    SELECT A.*, B.auction, B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra,
        row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime, B.number) AS place
    FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
    QUALIFY place = 1"""

SQL: Final[dict[str, str]] = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, CAST(0.908 * price * 1000 AS BIGINT), dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
        WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": """
        SELECT category, sum(final) // count(*) FROM (
            SELECT max(B.price) AS final, A.category
            FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
            GROUP BY A.id, A.category)
        GROUP BY category""",
    "q5": """
        WITH hops AS (SELECT auction, dateTime - dateTime % 2000 - back AS start
                FROM bid, range(0, 10000, 2000) AS backs(back)),
            counted AS (SELECT auction, start, count(*) AS num FROM hops GROUP BY auction, start),
            greatest AS (SELECT start, max(num) AS num FROM counted GROUP BY start)
        SELECT auction, counted.num FROM counted JOIN greatest USING (start)
        WHERE counted.num >= greatest.num""",
    "q6": f"""
        SELECT seller, sum(price) OVER last // count(*) OVER last FROM ({_WINNING})
        WINDOW last AS (
            PARTITION BY seller ORDER BY bid_dateTime, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)""",
    "q7": """
        SELECT B.auction, B.bidder, B.price, B.dateTime, B.extra
        FROM bid B JOIN (
            SELECT max(price) AS maxprice, dateTime - dateTime % 10000 + 10000 AS stop FROM bid GROUP BY stop
        ) B1 ON B.price = B1.maxprice
        WHERE B.dateTime >= B1.stop - 10000 AND B.dateTime < B1.stop""",
    "q8": """
        SELECT P.id, P.name, P.start
        FROM (SELECT DISTINCT id, name, dateTime - dateTime % 10000 AS start FROM person) P
        JOIN (SELECT DISTINCT seller, dateTime - dateTime % 10000 AS start FROM auction) A
        ON P.id = A.seller AND P.start = A.start""",
    "q9": f"""
        SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra,
            auction, bidder, price, bid_dateTime, bid_extra
        FROM ({_WINNING})""",
    "q10": f"SELECT auction, bidder, price, dateTime, extra, {_DAY}, {_MINUTE} FROM bid",
    "q11": """
        WITH steps AS (
                SELECT bidder, dateTime,
                    dateTime - lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) > 10000 AS begins
                FROM bid),
            numbered AS (
                SELECT bidder, dateTime, count(*) FILTER (begins) OVER (
                    PARTITION BY bidder ORDER BY dateTime RANGE UNBOUNDED PRECEDING) AS session
                FROM steps)
        SELECT bidder, count(*), min(dateTime), max(dateTime) + 10000
        FROM numbered GROUP BY bidder, session""",
    "q12": """
        SELECT bidder, count(*), arrival - arrival % 10000 AS start, arrival - arrival % 10000 + 10000 AS stop
        FROM bid GROUP BY bidder, start, stop""",
    "q13": """
        SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
        FROM bid B JOIN side_input S ON B.auction % 10000 = S.key""",
    "q14": """
        SELECT auction, bidder, CAST(0.908 * price * 1000 AS BIGINT),
            CASE WHEN hour(epoch_ms(dateTime)) >= 8 AND hour(epoch_ms(dateTime)) <= 18 THEN 'dayTime'
                WHEN hour(epoch_ms(dateTime)) <= 6 OR hour(epoch_ms(dateTime)) >= 20 THEN 'nightTime'
                ELSE 'otherTime' END,
            dateTime, extra, length(extra) - length(replace(extra, 'c', ''))
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} AS day, {_COUNTS}, {_DISTINCT} FROM bid GROUP BY day",
    "q16": f"""
        SELECT channel, {_DAY} AS day, max({_MINUTE}), {_COUNTS}, {_DISTINCT}
        FROM bid GROUP BY channel, day""",
    "q17": f"""
        SELECT auction, {_DAY} AS day, {_COUNTS}, min(price), max(price), sum(price) // count(*), sum(price)
        FROM bid GROUP BY auction, day""",
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, number DESC) <= 1""",
    "q19": """
        SELECT auction, bidder, price, channel, url, dateTime, extra,
            row_number() OVER (PARTITION BY auction ORDER BY price DESC, number) AS rank_number
        FROM bid QUALIFY rank_number <= 10""",
    "q20": """
        SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra,
            A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller,
            A.category, A.extra
        FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10""",
    "q21": f"""
        SELECT auction, bidder, price, channel,
            CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                WHEN 'baidu' THEN '3' ELSE {_CHANNEL_ID} END
        FROM bid WHERE {_NAMED} OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel,
            split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6)
        FROM bid""",
}
