-- What append.lua and delete.lua share. Nothing here writes but announce.
--
-- KEYS  1 the channel's stream       2 its small key
--       3 the partition's journal    4 the journal's last id
-- A small key is "<last id> <b> <floor> <size> <1 if the last id is the channel's end, else 0>".
-- Numbers are doubles: exact to 2^53, which milliseconds reach in the year 287396.

local function id(ms, n) return string.format('%.0f-%.0f', ms, n) end
local function text(x) return string.format('%.0f', x) end
local function split(s)
  local ms, n = string.match(s, '^(%d+)-(%d+)')
  return tonumber(ms), tonumber(n)
end
local function refused(r) return type(r) == 'table' and r.err end
local function smaller(r) return refused(r) and string.find(r.err, 'equal or smaller', 1, true) end
local function broken(key, is, want)
  return redis.error_reply('WRONGTYPE ' .. key .. ' is ' .. is .. ', not ' .. want)
end

-- generated is the last id a stream ever gave and its length, zeros without one.
local function generated(key)
  if redis.call('EXISTS', key) == 0 then return 0, 0, 0 end
  local info = redis.call('XINFO', 'STREAM', key)
  local f = {}
  for i = 1, #info, 2 do f[info[i]] = info[i + 1] end
  local ms, n = split(f['last-generated-id'])
  return ms, n, f.length
end

-- newest is our newest entry, its b, and 1 if it is an end, else 0; entries of
-- foreign writers lack p or b.
local function newest(key)
  local top = '+'
  while true do
    local e = redis.call('XREVRANGE', key, top, '-', 'COUNT', 1)[1]
    if not e then return end
    local f = {}
    for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end
    if f.p and f.b and tonumber(f.b) then
      local ms, n = split(e[1])
      return ms, n, tonumber(f.b), f['end'] and 1 or 0
    end
    top = '(' .. e[1]
  end
end

-- last is the channel's last id, its life b, the floor of its last delete, the
-- size to expect of an entry and 1 if it has ended, else 0; n is 0 if it has no
-- last id, nil if the small key is not ours. A lost small key is found again from
-- the stream, but for an end that was deleted.
local function last()
  local small = redis.call('GET', KEYS[2])
  if small then
    local ms, n, b, floor, size, ended = string.match(small, '^(%d+)-(%d+) (%d+) (%d+%-%d+) (%d+) ([01])$')
    return tonumber(ms), tonumber(n), tonumber(b), floor, tonumber(size), tonumber(ended)
  end
  local gms, gn, length = generated(KEYS[1])
  local ms, n, b, ended = newest(KEYS[1])
  if not n then
    if length > 0 then gn = 0 end
    return gms, gn, gms, '0-0', 0, 0
  end
  if gn >= n and ended == 0 then ms, n = gms, gn end
  return ms, n, b, '0-0', 0, ended
end

-- journal is the journal's last id, read and checked before the first write.
local function journal()
  local is = redis.call('TYPE', KEYS[3]).ok
  if is ~= 'stream' and is ~= 'none' then return nil, is end
  local s = redis.call('GET', KEYS[4])
  if s then return split(s) end
  return generated(KEYS[3])
end

-- announce adds to the journal, behind (jms, jn), that the channel is now at
-- (ms, n) by an entry of so many bytes; -1 is a delete. A journal that takes no
-- more (a foreign id at the end of all ids) is begun anew.
local function announce(jms, jn, channel, ms, n, bytes)
  local p = jms
  jms = math.max(jms, ms)
  jn = jn + 1
  local function add()
    return redis.pcall('XADD', KEYS[3], 'MAXLEN', '~', 10000, id(jms, jn),
      'c', channel, 'i', id(ms, n), 's', bytes, 'p', text(p))
  end
  local r = add()
  if smaller(r) then
    jms = generated(KEYS[3]) + 1
    r = add()
  end
  if refused(r) then
    redis.call('DEL', KEYS[3])
    jms = math.max(p, ms)
    add()
  end
  redis.call('SET', KEYS[4], id(jms, jn))
end
