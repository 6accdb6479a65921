"""A sink of big immutable files, in a folder or in S3: exactly once, fenced, and without waiting for a
checkpoint.

    part-000000000002-000000000001.parquet     what others read: whole files, each item in one of them, once
    _flamestream/sink.json                     whose place it is
    _flamestream/logs/000000000002/0000...17   segments: what is acknowledged and in no part yet (segments.py)
    _flamestream/chain/000000000009.json       decisions: a log was opened, a part was made, a log is closed
                                               (chain.py)
    _flamestream/checkpoints/000000000064.json what the decisions up to there come to

Everything is an object that is created if it is absent, and never changed. There is no other operation, and
no listing decides anything.

**Delivery.** A worker that opens the sink gets a log of its own: the number of its `opened` decision. A
delivery is one object: the next number of that log, created if absent. When it is there, the delivery is
acknowledged; nothing else has to be asked or written.

**Fencing.** Who opens under fence F first appends `opened` to the chain. Decisions are numbered without gaps,
so whoever appends has read all before, and an opener that meets a newer fence gives up. Then it creates a
*seal* at the next free number of every log of an older fence. Creation decides the race with the log's owner:
either the delivery is there, then it counts and the seal comes behind it; or the seal is there, then the
owner's creation fails, it reads the seal and knows that it is fenced. No older worker can get a new log, for
its `opened` would have to follow ours. So when the seals are there, what counts of everything older is fixed
for ever. `t_last` and the last bundle of each slot are read from it: each segment carries the number of every
slot's newest segment, so the newest segment of a log and a few others are enough.

**Parts.** In the background the segments of a log, in their order, become parts: the part that begins with
segment `i` of log `l` has a name made of `l` and `i` alone, and is created if absent. Whoever is second (a
zombie, a successor, a process that died half-way and came back) finds it, looks which segments it holds, and
goes on behind them. So the parts of a log hold each segment once, whoever makes them; making parts needs no
fence. Then the part is appended to the chain, and then its segments are deleted. A number that was freed so
could be created again: a seal that was created at a number that the chain says is in a part is void (checked
after creating it), and a worker's own numbers are always beyond.

**What a reader sees.** By plain path: whole parts; of each slot a prefix of the output without gap or
repetition, because a log gets no part before all logs of older fences are in parts; late by at most
`rollSeconds` and the making of a part. By the chain: the same, as a list that never shrinks. With
`flamestream cat`: also what is in segments, so everything that was acknowledged when it began.

**Bounds.** A worker creates at most one segment each `segmentSeconds`; parts have about `rollBytes` or are
`rollSeconds` apart; a part costs one object, one decision and one deletion a segment. A recovery reads a
checkpoint, fewer than 64 decisions, and a few segments.

Keeps: a delivery that is acknowledged is in exactly one part in the end; a fence is refused for every slot
once a newer one is open (invariant 6). Needs: create-if-absent that is atomic, and reads that see what was
created (S3's `If-None-Match: *`; `link` in a folder). Does not: delete decisions or seals (few bytes each).
"""
