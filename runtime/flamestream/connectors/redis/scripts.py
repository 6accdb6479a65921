"""The scripts of the Redis sink, each one step: the server runs a script of Lua alone and writes it to the
append-only file as one.

The state of a sink is one hash: `SLOT:attempt`, `SLOT:layout`, `SLOT:sequence`, `SLOT:t_last`, `SLOT:items`.

| script  | does                                                                             | answers |
|---------|----------------------------------------------------------------------------------|-----|
| OPEN    | raises slots' fences, if none is newer                                           | opened, last bundles |
| DELIVER | checks fences and sequences of all bundles, then writes entries and last bundles | taken |
| WRITE   | writes entries; nothing is checked and nothing noted                             | taken |

Every other answer says why nothing was changed: fenced (attempt, layout), lost (slot: it was not opened under
this fence), order (slot, sequence, what is there), type (key, what it holds), history (slot, its length).

A script that fails in the middle would leave half of its work, so everything that can be wrong is checked
before the first write; that memory is full the server checks before it begins.

Keeps: a bundle that is there already is compared whole and not written again. Does not: know what entries are
made of (redis/entries.py).
"""

import hashlib
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Script:
    """A script that the server runs."""

    source: str

    @property
    def digest(self) -> str:
        """The name that the server knows it by."""
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


_FENCE: Final = """
local attempt, layout = tonumber(ARGV[1]), tonumber(ARGV[2])
local function read(slot)
    local fields = {slot .. ':attempt', slot .. ':layout', slot .. ':sequence', slot .. ':t_last', slot .. ':items'}
    local had = redis.call('HMGET', KEYS[1], unpack(fields))
    local a, l = tonumber(had[1] or 0), tonumber(had[2] or 0)
    return had, a > attempt or (a == attempt and l > layout), a == attempt and l == layout
end
"""
_OPEN: Final = """
local last = {}
for i = 3, #ARGV do
    local had, newer = read(ARGV[i])
    if newer then return {'fenced', had[1], had[2]} end
    if had[3] then last[#last + 1] = {ARGV[i], had[3], had[4], had[5]} end
end
for i = 3, #ARGV do
    redis.call('HSET', KEYS[1], ARGV[i] .. ':attempt', ARGV[1], ARGV[i] .. ':layout', ARGV[2])
end
return {'opened', last}
"""
_BUNDLES: Final = """
local form, longest, bundles = ARGV[3], ARGV[4], cmsgpack.unpack(ARGV[5])
local holds = redis.call('TYPE', KEYS[2]).ok
if holds ~= 'none' and holds ~= form then return {'type', KEYS[2], holds} end
local fresh = bundles
"""
# By '%d', since Lua itself writes a number from 10^14 on with an exponent.
_CHECK: Final = """
if KEYS[3] then
    local kept = redis.call('TYPE', KEYS[3]).ok
    if kept ~= 'none' and kept ~= 'set' then return {'type', KEYS[3], kept} end
end
fresh = {}
local ahead, length = {}, {}
for i, bundle in ipairs(bundles) do
    local slot, sequence, key = string.format('%d', bundle[1]), bundle[2], KEYS[3 + i]
    if not ahead[slot] then
        local had, newer, ours = read(slot)
        if newer then return {'fenced', had[1], had[2]} end
        if not ours then return {'lost', slot} end
        ahead[slot] = {tonumber(had[3] or 0), had[4], had[5]}
        if key then
            local kept = redis.call('TYPE', key).ok
            if kept ~= 'none' and kept ~= 'list' then return {'type', key, kept} end
            if redis.call('LLEN', key) ~= ahead[slot][1] then return {'history', slot, redis.call('LLEN', key)} end
        end
    end
    local now = ahead[slot]
    if sequence == now[1] + 1 then
        fresh[#fresh + 1] = bundle
        bundle[6] = key
        ahead[slot] = {sequence, bundle[3], bundle[4]}
    elseif sequence ~= now[1] or bundle[3] ~= now[2] or bundle[4] ~= now[3] then
        return {'order', slot, string.format('%d', sequence), string.format('%d', now[1])}
    end
end
"""
# A thousand at a time: `unpack` puts them on Lua's stack, which takes 8,000. An even number, so that no name
# loses its value.
_WRITE: Final = """
for _, bundle in ipairs(fresh) do
    local entries = bundle[5]
    if form == 'hash' then
        for i = 1, #entries, 1000 do
            redis.call('HSET', KEYS[2], unpack(entries, i, math.min(i + 999, #entries)))
        end
    else
        for _, entry in ipairs(entries) do
            if longest == '' then
                redis.call('XADD', KEYS[2], '*', unpack(entry))
            else
                redis.call('XADD', KEYS[2], 'MAXLEN', '~', longest, '*', unpack(entry))
            end
        end
    end
end
"""
_NOTE: Final = """
for _, bundle in ipairs(fresh) do
    local slot = string.format('%d', bundle[1])
    if bundle[6] then
        redis.call('SADD', KEYS[3], slot)
        redis.call('RPUSH', bundle[6], bundle[4])
    end
    local sequence = string.format('%d', bundle[2])
    redis.call('HSET', KEYS[1],
        slot .. ':sequence', sequence, slot .. ':t_last', bundle[3], slot .. ':items', bundle[4])
end
"""
_TAKEN: Final = "return {'taken', #fresh}\n"

OPEN: Final = Script(_FENCE + _OPEN)
"""KEYS: state. ARGV: attempt, layout, slots."""
DELIVER: Final = Script(_FENCE + _BUNDLES + _CHECK + _WRITE + _NOTE + _TAKEN)
"""KEYS: state, entries' key; if there is a history the set of its slots, and the list of each bundle's slot.

ARGV: attempt, layout, form, longest stream or "", bundles as msgpack: [slot, sequence, t_last, items,
entries]. Entries of a hash are name, value, name, value; of a stream one such list each.
"""
WRITE: Final = Script(_BUNDLES + _WRITE + _TAKEN)
"""As DELIVER."""
