-- Drops a channel's messages and keeps its counter. Answers the last id, the new
-- floor; "0-0" if the channel never had a message, and then nothing is touched.
--
-- ARGV  1 channel   2 milliseconds the small key lives

local ms, n, b, _, size, ended = last()
if not n then return broken(KEYS[2], 'something else', 'the small key of a channel') end
local jms, jn = journal()
if not jms then return broken(KEYS[3], 'a ' .. jn, 'a stream') end
if n == 0 then return '0-0' end

local r = redis.pcall('XTRIM', KEYS[1], 'MAXLEN', 0)
if refused(r) then return r end

announce(jms, jn, ARGV[1], ms, n, -1)
redis.call('SET', KEYS[2], table.concat({id(ms, n), text(b), id(ms, n), size, ended}, ' '), 'PX', ARGV[2])
return id(ms, n)
