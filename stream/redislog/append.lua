-- Appends one message. Answers {'new', id}, {'old', id} (the first answer to the
-- same idempotency key), {'conflict', id} (it was another message's), {'ended',
-- id} (the channel has an end), or an error; but for new, nothing at all was
-- written then: every read and check comes before the first write.
--
-- KEYS  5 the idempotency key, absent without one
-- ARGV  1 channel   2 payload   3 event   4 key   5 hash of 2-4 and 14
--       6, 7 the last id the caller knows, 0 0 if none
--       8 messages kept   9 milliseconds they are kept
--      10, 11, 12 milliseconds the stream, the small key, the idempotency key live
--      13 milliseconds to take for the clock, 0: Redis' own
--      14 'alone' for an end that is no message, 'message' for one with this
--         message, '' for none

if KEYS[5] then
  local answer = redis.call('GET', KEYS[5])
  if answer then
    local old, hash = string.match(answer, '^(%d+%-%d+) (.*)$')
    if hash == ARGV[5] then return {'old', old} end
    return {'conflict', old or ''}
  end
end

local time = redis.call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local now = tonumber(ARGV[13])
if now == 0 then now = clock end

local ms, n, b, floor, size, ended = last()
if not n then return broken(KEYS[2], 'something else', 'the small key of a channel') end
local jms, jn = journal()
if not jms then return broken(KEYS[3], 'a ' .. jn, 'a stream') end
if ended == 1 then return {'ended', id(ms, n)} end

-- A known id that the log does not have, or no id at all: a new life.
local kms, kn = tonumber(ARGV[6]), tonumber(ARGV[7])
local p = ms
if n == 0 or kms > ms or (kms >= b and kn > n) then
  p = 0
  n = math.max(n, kn) + 1
  ms = math.max(now, ms + 1)
  if kms <= now + 60000 then ms = math.max(ms, kms + 1) end
  b = ms
else
  n = n + 1
  ms = math.max(now, ms)
end

local function add()
  local fields = {'v', '1', 'p', text(p), 'b', text(b), 'payload', ARGV[2], 'event', ARGV[3], 'key', ARGV[4]}
  if ARGV[14] ~= '' then
    table.insert(fields, 'end')
    table.insert(fields, ARGV[14])
    ended = 1
  end
  return redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[8], id(ms, n), unpack(fields))
end
local r = add()
if smaller(r) then
  ms = generated(KEYS[1]) + 1
  if p == 0 then b = ms end
  r = add()
end
if refused(r) then return r end

local bytes = #ARGV[2] + #ARGV[3] + #ARGV[4]
size = math.max(bytes, size - math.floor(size / 16))
announce(jms, jn, ARGV[1], ms, n, bytes)
redis.call('SET', KEYS[2], table.concat({id(ms, n), text(b), floor, size, ended}, ' '), 'PX', ARGV[11])
if KEYS[5] then redis.call('SET', KEYS[5], id(ms, n) .. ' ' .. ARGV[5], 'PX', ARGV[12]) end
redis.call('XTRIM', KEYS[1], 'MINID', '~', text(math.max(0, clock - ARGV[9])))
redis.call('PEXPIRE', KEYS[1], ARGV[10])
return {'new', id(ms, n)}
