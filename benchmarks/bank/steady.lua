-- wrk's script: one strict question for one account after the other, at a steady rate whatever the answers take.
--
--     wrk --threads 1 --connections 64 --duration 6s --script steady.lua URL -- RATE ACCOUNTS
--
-- A question that is due when all connections wait for answers leaves with the next one. At the end a line of JSON says
-- what was found.

local ffi = require("ffi")
ffi.cdef [[ typedef struct { long s, ns; } moment; int clock_gettime(int, moment *); ]]
local at, due, every, words = ffi.new("moment"), nil, nil, {}

local function now() -- milliseconds
  ffi.C.clock_gettime(1, at)
  return tonumber(at.s) * 1e3 + tonumber(at.ns) * 1e-6
end

function init(arguments)
  every, due = 1e3 / arguments[1], now()
  for n = 1, 4096 do
    local body = string.format('{"read":[["accounts",%d]],"at":"strict"}', math.random(0, arguments[2] - 1))
    words[n] = wrk.format("POST", nil, nil, body)
  end
end

function request()
  return words[math.random(#words)]
end

function delay() -- milliseconds until this connection asks again
  due = due + every
  return math.max(0, due - now())
end

function done(summary, latency)
  local errors, failed = summary.errors, 0
  for _, count in pairs(errors) do failed = failed + count end
  io.write(string.format(
    '{"n":%d,"per_s":%.0f,"cpu_us":%.0f,"p50_ms":%.2f,"p99_ms":%.2f,"failed":%d}\n',
    summary.requests, summary.requests / summary.duration * 1e6, os.clock() / summary.requests * 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, failed))
end
