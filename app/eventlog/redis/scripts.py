"""The scripts, which Redis runs in one step, and the keys that they use.

A stream has two keys, both in the slot of its id: `log`, a Redis Stream whose entries have
the ids `<event number>-0` and the event's JSON in the field `e`, after an entry `0-1` whose
field `r` has the stream's info; and `meta`, a hash of

- `owner`, `epoch`: the process that may append. A process that ends an orphaned stream, or goes on
  with it, takes the next epoch;
- `who`, `listed`: the owner of the stream, if authentication is on, and what lists show of it;
- `lease`: the end of the process's lease, in ms of Redis's clock;
- `started`, `ended`: unix seconds, the latter from the `stream.end` on;
- `last`: the number of the last event;
- `kept`: the number of the process's last event, if another one ended the stream. The numbers of
  that ending are beyond all that the process may have shown: `cursors.Ending`;
- `server`: the Redis that has had all its events when the lease was renewed last, if another
  process may take it over: one that lacks some has another;
- `stop`: who has asked to stop it;
- `attended`: until when readers in other processes wait for events, in ms of Redis's clock;
- `gone`: set if the stream was removed, to the process that had ended it, else 1; the hash remains
  for a while as a mark.

Each process has a set of the streams that it runs, and a lease in `owners`. Each owner of streams
has two sorted sets for lists, of running and of ended streams, by their `listing.place`: an ended
one is there as long as its `meta`. `account_scripts` has the accounts.

Times are those of Redis, since the clocks of replicas differ. Every key has a time to live from
the step that creates it.
"""

from hashlib import sha1, sha256
from typing import NamedTuple

from ..contract import STRIDE
from ..listing import STEP
from .account_scripts import FIND_HELD as _FIND_HELD
from .account_scripts import HELD, PREFIX, RESERVE, SETTLE
from .account_scripts import HOLD as _HOLD
from .account_scripts import PUT_BACK_ROW as _PUT_BACK_ROW
from .account_scripts import TAKE_ROWS as _TAKE_ROWS


class Script(NamedTuple):
    text: str
    sha: str


_ALWAYS = "#!lua flags=allow-oom\n"
"""The first line of a script that a full Redis runs, too: it adds next to nothing."""


def _script(text: str) -> Script:
    return Script(text, sha1(text.encode()).hexdigest())  # noqa: S324  (required by Redis)


def meta_key(stream: str) -> str:
    return f"{PREFIX}{{{stream}}}:meta"


def log_key(stream: str) -> str:
    return f"{PREFIX}{{{stream}}}:log"


INFO_ID = "0-1"
"""The id of the entry with the stream's info."""


def inbox_key(owner: str) -> str:
    """Return the key of the messages to a process."""
    return f"{PREFIX}inbox:{owner}"


OWNERS = f"{PREFIX}owners"


def running_key(owner: str) -> str:
    """Return the key of the set of streams that a process runs."""
    return f"{PREFIX}running:{owner}"


def idempotency_key(key: str) -> str:
    return f"{PREFIX}key:{sha256(key.encode()).hexdigest()}"


def is_claim(value: str) -> bool:
    """Return whether a value is a claim (stream and digest), not the stream of a name."""
    return " " in value


def name_key(name: str) -> str:
    return f"{PREFIX}name:{sha256(name.encode()).hexdigest()}"


def list_key(owner: str, *, ended: bool) -> str:
    """Return the key of the list of an owner's running or ended streams."""
    return f"{PREFIX}list:{'ended' if ended else 'running'}:{owner}"


LISTED = 10_000
"""How many running streams of one owner are in the list."""

CHANGED = f"{PREFIX}changed"
"""The key of the owners whose lists have new entries, each by the number of its last change.

It is there while somebody reads it. The member "" has the number from which on none is missing.
"""

# Replies of APPEND and RENEW other than the plain number.
STOP, BEHIND, MISSING, FENCED, GONE, STOP_BY_OPERATOR = 1, 2, 3, 4, 5, 6

_RUNNING = f"""
local function running(owner) return '{PREFIX}running:' .. owner end
local function id_of(meta) return string.match(meta, '{{(.*)}}') end
local function forget(owner, meta) redis.call('SREM', running(owner), id_of(meta)) end
"""

_LISTS = f"""
local function list_of(part, who) return '{PREFIX}list:' .. part .. ':' .. who end
local function newest_of(set)
  return redis.call('ZREVRANGEBYSCORE', set, '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
end
local function note_change(who)
  local newest = newest_of('{CHANGED}')
  if newest then redis.call('ZADD', '{CHANGED}', string.format('%.17g', newest + 1), who) end
end
local function list_in(list, stream, at)  -- see app.eventlog.listing.place
  local time = redis.call('TIME')
  local place = math.max(at, time[1] + time[2] / 1e6, (newest_of(list) or 0) + {STEP})
  redis.call('ZADD', list, 'NX', string.format('%.17g', place), stream)
end
local function list_running(who, stream, started, ttl)
  local list = list_of('running', who)
  list_in(list, stream, started)
  note_change(who)
  redis.call('ZREMRANGEBYRANK', list, 0, -{LISTED + 1})
  redis.call('PEXPIRE', list, ttl)
end
local function unlist(who, stream)
  if not who then return end
  redis.call('ZREM', list_of('running', who), stream)
  redis.call('ZREM', list_of('ended', who), stream)
end
local function list_ended(who, stream, ended, ttl)
  if not who then return end
  redis.call('ZREM', list_of('running', who), stream)
  list_in(list_of('ended', who), stream, ended)
  note_change(who)
  redis.call('PEXPIRE', list_of('ended', who), ttl)
end
"""

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

CREATE = _script(
    _NOW
    + _RUNNING
    + _LISTS
    + RESERVE
    + """
-- KEYS: meta, log; the claim, if there is a key; and the meta of a claimed stream that is gone or
-- has ended. ARGV: owner, epoch, started, lease ms, ttl ms, ttl ms of a running log, info, owner
-- of the stream or '', the reservation request or '', the info without the stored request or ''
-- if it has none, what lists show; for a new stream, also the claim's value or '', the value it
-- replaces or '', ttl ms of the mark of that one's stream, '1' if it is to run alone, the
-- `server` or '', the keys of the names.
-- Returns 1, or a list of what was reserved, if the stream and claim are ours; {-1, a list, the
-- time} if an account lacks room; {-2, another running stream of a name} if it would not run
-- alone; the claim's value if its stream may still exist; 0 if the
-- stream exists, or did.
local is = redis.call('HMGET', KEYS[1], 'owner', 'gone')
if is[2] or (is[1] and is[1] ~= ARGV[1]) then return 0 end
local bound, forgotten = KEYS[3] and redis.call('GET', KEYS[3]), false
if bound and bound ~= ARGV[12] then
  if bound ~= ARGV[13] then return bound end
  local old = redis.call('HMGET', KEYS[4], 'owner', 'ended', 'gone')
  if old[1] and not old[2] and not old[3] then return bound end
  forgotten = not old[1] and not old[3]
end
local reply, stream, names = 1, id_of(KEYS[1]), {}
for i = 17, #ARGV do
  names[i] = stream
  for other in string.gmatch(redis.call('GET', ARGV[i]) or '', '[^,]+') do
    local found = redis.call('HMGET', '"""
    + PREFIX
    + """{' .. other .. '}:meta', 'started', 'ended', 'gone')
    if other ~= stream and found[1] and not found[2] and not found[3] then
      -- one that is there already was sent again, and may have company by now
      if ARGV[15] == '1' and not is[1] then return {-2, other} end
      names[i] = names[i] .. ',' .. other
    end
  end
end
if ARGV[9] and ARGV[9] ~= '' then
  local packed = redis.call('HMGET', HELD, stream)[1]
  if packed then  -- the command was sent again
    reply = {cmsgpack.unpack(packed)[2], now}
  elseif is[1] then
    reply = 0
  else
    local done, told = reserve(stream, ARGV[1], ARGV[4], ARGV[9],
      ARGV[10] == '' and ARGV[7] or ARGV[10])
    if not done then return {-1, told[1], told[2]} end
    reply = told
  end
end
if forgotten then
  redis.call('HSET', KEYS[4], 'gone', 1)
  redis.call('PEXPIRE', KEYS[4], ARGV[14])
end
if KEYS[3] then redis.call('SET', KEYS[3], ARGV[12], 'PX', ARGV[5]) end
for i, value in pairs(names) do redis.call('SET', ARGV[i], value, 'PX', ARGV[5]) end
if not is[1] then
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', ARGV[2], 'started', ARGV[3],
    'last', 0, 'lease', now + ARGV[4])
  if ARGV[16] and ARGV[16] ~= '' then redis.call('HSET', KEYS[1], 'server', ARGV[16]) end
  if ARGV[8] ~= '' then
    redis.call('HSET', KEYS[1], 'who', ARGV[8], 'listed', ARGV[11])
    list_running(ARGV[8], stream, ARGV[3], ARGV[5])
    redis.call('ZREMRANGEBYSCORE', list_of('ended', ARGV[8]), '-inf', (now - ARGV[5]) / 1000)
  end
  redis.call('DEL', KEYS[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('XADD', KEYS[2], '0-1', 'r', ARGV[7])
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
redis.call('ZADD', 'seseragi:owners', now + ARGV[4], ARGV[1])
redis.call('PEXPIRE', 'seseragi:owners', ARGV[5])
redis.call('SADD', running(ARGV[1]), stream)
redis.call('PEXPIRE', running(ARGV[1]), ARGV[5])
return reply
"""
)

ABANDON = _script(
    _RUNNING
    + _LISTS
    + SETTLE
    + """
-- KEYS: meta, log; its claim if a key leads to it. ARGV: owner, unix seconds, ttl ms of an ended
-- log, of its meta, an event, the claim's value.
-- Takes back a stream that this owner has created, or will, by a command on its way: without
-- events it is removed, else it ends with that event. It costs nothing.
local is = redis.call('HMGET', KEYS[1], 'owner', 'last', 'ended', 'gone', 'who')
if is[3] or is[4] or (is[1] and is[1] ~= ARGV[1]) then return 0 end
forget(ARGV[1], KEYS[1])
settle(id_of(KEYS[1]))
local last = tonumber(is[2] or 0)
if last == 0 then
  unlist(is[5], id_of(KEYS[1]))
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[1], 'gone', 1)
  if KEYS[3] and redis.call('GET', KEYS[3]) == ARGV[6] then redis.call('DEL', KEYS[3]) end
else
  redis.call('XADD', KEYS[2], string.format('%d-0', last + 1), 'e', ARGV[5])
  redis.call('HSET', KEYS[1], 'last', last + 1, 'ended', ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  list_ended(is[5], id_of(KEYS[1]), ARGV[2], ARGV[4])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
"""
)

FORGET_NAME = _script("""
-- KEYS: a name. ARGV: the stream that it may lead to, ttl ms. The name leads to none afterwards.
local bound = redis.call('GET', KEYS[1])
if bound and string.match(bound, '^[^,]+') == ARGV[1] then
  redis.call('SET', KEYS[1], ',' .. bound, 'PX', ARGV[2])
end
""")

CLAIM = _script(
    _LISTS
    + SETTLE
    + """
-- KEYS: claim or name. ARGV: value, ttl ms, ttl ms of the mark of a removed stream. Restores a
-- value that Redis has lost, unless another stream has the key by now; returns the value there.
-- A stream without events loses its claim and is removed: no provider was called for it.
local bound = redis.call('GET', KEYS[1])
if bound and bound ~= ARGV[1] then
  local other = string.match(bound, '^(%S+) ')
  if not other then  -- a newer stream has the name, which still runs in this one
    if not string.find(',' .. bound .. ',', ',' .. ARGV[1] .. ',', 1, true) then
      redis.call('SET', KEYS[1], bound .. ',' .. ARGV[1], 'PX', ARGV[2])
    end
    return bound
  end
  local meta = 'seseragi:{' .. other .. '}:meta'
  local is = redis.call('HMGET', meta, 'last', 'gone', 'who')
  if is[1] and is[1] ~= '0' and not is[2] then return bound end
  unlist(is[3], other)
  redis.call('DEL', meta)
  redis.call('HSET', meta, 'gone', 1)
  redis.call('PEXPIRE', meta, ARGV[3])
  settle(other)
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
"""
)

APPEND = _script(
    _RUNNING
    + _LISTS
    + """
-- KEYS: meta and log of each stream. ARGV: owner, ttl ms of a running log, of an ended one, of its
-- meta; then for each stream: epoch, number of the first event, '' or end time and settlement, how
-- many events, the events.
-- Returns for each stream the number of its last event, or {reply, a number}: of one that was
-- removed, 1 if this owner had ended it.
local replies, at = {}, 5
for i = 1, #KEYS, 2 do
  local meta, log = KEYS[i], KEYS[i + 1]
  local first, ended, count = tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3])
  local is = redis.call('HMGET', meta, 'owner', 'epoch', 'last', 'stop', 'gone', 'kept')
  local last = tonumber(is[3])
  local reply
  if is[5] then
    reply = {5, is[5] == ARGV[1] and 1 or 0}
  elseif not is[1] then
    reply = {3, 0}
  elseif is[1] ~= ARGV[1] or is[2] ~= ARGV[at] then
    reply = {4, tonumber(is[6] or last) or 0}
  elseif last < first - 1 then
    reply = {2, last}
  else
    for n = last + 1, first + count - 1 do
      local id, event = string.format('%d-0', n), ARGV[at + 4 + n - first]
      if last == 0 then
        redis.call('XADD', log, id, 'e', event)
        redis.call('PEXPIRE', log, ARGV[2])
      elseif not redis.call('XADD', log, 'NOMKSTREAM', id, 'e', event) then
        redis.call('HSET', meta, 'last', 0)
        reply = {2, 0}  -- it was evicted: the owner has all events
        break
      end
      last = n
    end
    if reply then
      -- it is written again
    elseif ended ~= '' then
"""
    + SETTLE
    + """
      local wall, spent = string.match(ended, '^(%S+) (.*)$')
      redis.call('HSET', meta, 'last', last, 'ended', wall)
      redis.call('PEXPIRE', log, ARGV[3])
      redis.call('PEXPIRE', meta, ARGV[4])
      list_ended(redis.call('HMGET', meta, 'who')[1], id_of(meta), wall, ARGV[4])
      forget(ARGV[1], meta)
      settle(id_of(meta), spent)
      reply = last
    else
      if count > 0 then redis.call('HSET', meta, 'last', last) end
      reply = is[4] and {is[4] == 'operator' and 6 or 1, last} or last
    end
  end
  replies[#replies + 1] = reply
  at = at + 4 + count
end
return replies
"""
)

RENEW = _script(
    _ALWAYS
    + _NOW
    + _RUNNING
    + _LISTS
    + """
-- KEYS: meta and log of each stream. ARGV: owner, lease ms, ttl ms of a running log, of its meta,
-- then each stream's epoch and `server`, or ''.
-- Returns for each stream 0, or {reply, a number}.
local replies = {}
for i = 1, #KEYS, 2 do
  local is = redis.call('HMGET', KEYS[i], 'owner', 'epoch', 'stop', 'gone', 'kept', 'last',
    'ended', 'who', 'started')
  if is[4] then
    replies[#replies + 1] = {5, is[4] == ARGV[1] and 1 or 0}
  elseif not is[1] then
    replies[#replies + 1] = {3, 0}
  elseif is[1] ~= ARGV[1] or is[2] ~= ARGV[4 + i] then
    replies[#replies + 1] = {4, tonumber(is[5] or is[6]) or 0}
  elseif is[7] then
    replies[#replies + 1] = 0
  else
    redis.call('HSET', KEYS[i], 'lease', now + ARGV[2])
    if ARGV[5 + i] ~= '' then redis.call('HSET', KEYS[i], 'server', ARGV[5 + i]) end
    redis.call('PEXPIRE', KEYS[i], ARGV[4])
    redis.call('PEXPIRE', KEYS[i + 1], ARGV[3])
    if is[8] then list_running(is[8], id_of(KEYS[i]), is[9], ARGV[4]) end
    replies[#replies + 1] = is[3] and {is[3] == 'operator' and 6 or 1, 0} or 0
  end
end
return replies
"""
)

PAGE = _script(
    _NOW
    + """
-- KEYS: meta, log; or a name. ARGV: after, limit, bytes, and maybe an owner. Returns the stream of
-- the name, fields of the meta, how many ms are left of its lease and of that of its readers, and
-- events after the cursor: some, if there are any, about so many bytes at most. Only the stream if
-- it is unknown or another owner's; nothing if the name is unknown.
local meta, log, stream = KEYS[1], KEYS[2], ''
if not log then
  stream = string.match(redis.call('GET', meta) or '', '^[^,]+')
  if not stream then return false end
  meta, log = 'seseragi:{' .. stream .. '}:meta', 'seseragi:{' .. stream .. '}:log'
end
local is = redis.call('HMGET', meta, 'started', 'ended', 'last', 'epoch', 'gone', 'kept',
  'lease', 'attended', 'who')
if not is[3] and not is[5] or ARGV[4] and ARGV[4] ~= (is[9] or '') then return {stream} end
local events, left, size = {}, is[5] and 0 or tonumber(ARGV[2]), tonumber(ARGV[3])
local from = string.format('%d-0', ARGV[1] + 1)
while left > 0 and size > 0 do
  local count = math.min(left, 64)
  local some = redis.call('XRANGE', log, from, '+', 'COUNT', count)
  for _, entry in ipairs(some) do
    events[#events + 1] = entry
    size = size - #entry[2][2]
  end
  left = #some == count and left - count or 0
  if left > 0 then from = '(' .. some[#some][1] end
end
return {stream, is[1] or '0', is[2] or '', tonumber(is[3] or 0), tonumber(is[4] or 0),
  is[5] and 1 or 0, tonumber(is[6] or -1), is[9] or '', tonumber(is[7] or 0) - now,
  tonumber(is[8] or 0) - now, events}
"""
)

LIST = _script(
    _ALWAYS
    + _NOW
    + """
-- KEYS: the list. ARGV: owner, '1' if the list is of ended streams, the greatest score, the stream
-- with that score that the first one comes after or '', '(' and when the last
-- one ended that has expired, limit.
-- Returns of each stream: its id, score, `started`, `ended`, `last`, `listed`, the last entry of
-- its log if it has ended, and 1 if it is orphaned. Removes what does not belong into the list.
local ended, limit, at, found = ARGV[2] == '1', tonumber(ARGV[6]), 0, {}
while #found < limit do
  local some = redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[3], ARGV[5], 'WITHSCORES', 'LIMIT', at,
    limit)
  if #some == 0 then return found end
  for n = 1, #some, 2 do
    local stream, score = some[n], some[n + 1]
    at = at + 1
    if #found < limit
      and (ARGV[4] == '' or tonumber(score) < tonumber(ARGV[3]) or stream < ARGV[4]) then
      local meta = 'seseragi:{' .. stream .. '}:'
      local is = redis.call('HMGET', meta .. 'meta', 'who', 'gone', 'ended', 'started', 'last',
        'listed', 'lease')
      local last = ended and is[5]
        and redis.call('XRANGE', meta .. 'log', is[5] .. '-0', is[5] .. '-0')
      if is[1] ~= ARGV[1] or is[2] or (is[3] and true or false) ~= ended
        or (last and #last == 0) then
        redis.call('ZREM', KEYS[1], stream)
        at = at - 1
      elseif not ended or tonumber(is[3]) > tonumber(string.sub(ARGV[5], 2)) then
        found[#found + 1] = {stream, score, is[4], is[3] or '', tonumber(is[5]), is[6], last or {},
          not ended and tonumber(is[7]) < now and 1 or 0}
      end
    end
  end
end
return found
"""
)

CHANGED_OWNERS = _script(
    _ALWAYS
    + _NOW
    + """
-- KEYS: the owners that have changed. ARGV: a mark. Returns the next mark, and the owners since, or
-- false for all. It begins at the time, so that marks of before a loss are too low.
local last = redis.call('ZREVRANGEBYSCORE', KEYS[1], '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
local newest = tonumber(last[2] or now * 1000)
-- The member '' has the least score: the first one that can be told from.
local first = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local least, owners = tonumber(first[2] or newest), false
if tonumber(ARGV[1]) >= least and tonumber(ARGV[1]) <= newest then
  owners = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf')
end
least = math.max(least, newest - 10000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.17g', least - 1))
redis.call('ZADD', KEYS[1], string.format('%.17g', least), '')
redis.call('PEXPIRE', KEYS[1], 10000)
return {string.format('%.17g', newest), owners}
"""
)

LOOK = _script(
    _ALWAYS
    + _NOW
    + """
-- KEYS: the metas of streams. ARGV: for each, for how many ms it has readers from now on, or 0.
-- Returns two numbers for each: 0 running, 1 ended, 2 gone, 3 missing, 4 orphaned; and the number
-- of its last event.
local replies = {}
for i, meta in ipairs(KEYS) do
  local is = redis.call('HMGET', meta, 'ended', 'gone', 'lease', 'last')
  replies[2 * i] = tonumber(is[4] or 0) or 0
  if is[2] then
    replies[2 * i - 1] = 2
  elseif not is[3] then
    replies[2 * i - 1] = 3
  elseif is[1] then
    replies[2 * i - 1] = 1
  else
    replies[2 * i - 1] = tonumber(is[3]) < now and 4 or 0
    if ARGV[i] ~= '0' then redis.call('HSET', meta, 'attended', now + ARGV[i]) end
  end
end
return replies
"""
)

END = _script(
    _ALWAYS
    + _NOW
    + _RUNNING
    + _LISTS
    + SETTLE
    + f"local STRIDE = {STRIDE}"
    + """
-- KEYS: meta, log. ARGV: owner, epoch and last event as read before, ended, ttl ms of the log, of
-- the meta, the settlement, the events. Returns 1 if this ended the stream, 0 if it has ended, is
-- not orphaned, or continued. A stream without events is removed.
local is = redis.call('HMGET', KEYS[1], 'epoch', 'last', 'lease', 'ended', 'gone', 'owner', 'who')
if is[4] or is[5] or not is[3] or tonumber(is[3]) >= now then return 0 end
if is[1] ~= ARGV[2] or is[2] ~= ARGV[3] then return 0 end
forget(is[6], KEYS[1])
local last = tonumber(is[2])
if last == 0 then
  unlist(is[7], id_of(KEYS[1]))
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[1], 'gone', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[6])
  settle(id_of(KEYS[1]), ARGV[7])
  return 1
end
last = (last + 1) * STRIDE + last  -- see app.eventlog.contract.Ending
for i = 8, #ARGV do
  last = last + 1
  redis.call('XADD', KEYS[2], string.format('%d-0', last), 'e', ARGV[i])
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', is[1] + 1, 'kept', is[2],
  'last', string.format('%d', last), 'ended', ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
list_ended(is[7], id_of(KEYS[1]), ARGV[4], ARGV[6])
settle(id_of(KEYS[1]), ARGV[7])
return 1
"""
)

TAKE = _script(
    _ALWAYS
    + _NOW
    + _RUNNING
    + f"local HELD = '{HELD}'"
    + """
-- KEYS: meta, log, owners. ARGV: owner, epoch and last event as read before, lease ms, ttl ms of a
-- running log, of its meta, the `server`. Returns 1 if the stream is the caller's now, 0 if it has
-- ended, is not orphaned, was continued or stopped, or if events may be missing.
local is = redis.call('HMGET', KEYS[1], 'epoch', 'last', 'lease', 'ended', 'gone', 'owner', 'stop',
  'server')
if is[4] or is[5] or is[7] or not is[3] or tonumber(is[3]) >= now then return 0 end
if is[1] ~= ARGV[2] or is[2] ~= ARGV[3] or is[8] ~= ARGV[7] then return 0 end
local stream = id_of(KEYS[1])
forget(is[6], KEYS[1])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', is[1] + 1, 'lease', now + ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('ZADD', KEYS[3], now + ARGV[4], ARGV[1])
redis.call('PEXPIRE', KEYS[3], ARGV[6])
redis.call('SADD', running(ARGV[1]), stream)
redis.call('PEXPIRE', running(ARGV[1]), ARGV[6])
local packed = redis.call('HMGET', HELD, stream)[1]
if packed then
  local hold = cmsgpack.unpack(packed)
  hold[1] = ARGV[1]
  redis.call('HSET', HELD, stream, cmsgpack.pack(hold))
end
return 1
"""
)

ASK_STOP = _script(
    _ALWAYS
    + """
-- KEYS: meta. ARGV: who stops it. Marks a running stream to be stopped, and returns its owner.
local is = redis.call('HMGET', KEYS[1], 'owner', 'ended', 'gone')
if not is[1] or is[2] or is[3] then return false end
redis.call('HSET', KEYS[1], 'stop', ARGV[1])
return is[1]
"""
)

TELL = _script("""
-- KEYS: inbox. ARGV: about how many messages it stores, ttl ms, the message, its stream.
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', ARGV[3], ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")

BEAT = _script(
    _ALWAYS
    + _NOW
    + _RUNNING
    + """
-- KEYS: owners. ARGV: owner, lease ms, ttl ms of the set of its streams.
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', running(ARGV[1]), ARGV[3])
return 1
"""
)

FIND_LOST = _script(
    _ALWAYS
    + _NOW
    + _RUNNING
    + """
-- KEYS: owners. Returns some orphaned streams; forgets dead owners without any.
local found = {}
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 10)) do
  for _, stream in ipairs(redis.call('SRANDMEMBER', running(owner), 100)) do
    local meta = 'seseragi:{' .. stream .. '}:meta'
    local is = redis.call('HMGET', meta, 'owner', 'ended', 'gone', 'lease')
    if is[1] ~= owner or is[2] or is[3] then
      forget(owner, meta)
    elseif tonumber(is[4]) < now then
      found[#found + 1] = stream
    end
  end
  if redis.call('EXISTS', running(owner)) == 0 then redis.call('ZREM', KEYS[1], owner) end
end
return found
"""
)

DELETE = _script(
    _RUNNING
    + _LISTS
    + SETTLE
    + """
-- KEYS: meta, log. ARGV: ttl ms of the mark, the settlement, 0 if the caller believes that it has
-- no events. Returns the owner, or '', and whether the stream ran and had events; 0 if it has some
-- after all; nothing if the stream is unknown and has no reservation.
local is = redis.call('HMGET', KEYS[1], 'owner', 'gone', 'who', 'ended', 'last')
if not is[1] or is[2] then
  if not settle(id_of(KEYS[1]), ARGV[2]) then return false end
  redis.call('HSET', KEYS[1], 'gone', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return {'', 1}
end
local ran = not is[4] and is[5] ~= '0'
if ran and ARGV[3] == '0' then return 0 end
forget(is[1], KEYS[1])
unlist(is[3], id_of(KEYS[1]))
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'gone', is[4] and is[1] or 1)
if is[3] then redis.call('HSET', KEYS[1], 'who', is[3]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
settle(id_of(KEYS[1]), ran and ARGV[2])
return {is[1], ran and 1 or 0}
"""
)

FIND_HELD = _script(_ALWAYS + _NOW + _FIND_HELD)
HOLD = _script(_HOLD)
TAKE_ROWS = _script(_ALWAYS + _TAKE_ROWS)
PUT_BACK_ROW = _script(_ALWAYS + _PUT_BACK_ROW)


def channel_keys(channel: str) -> list[str]:
    """Return the keys of a channel: its messages by name, and their expiry times."""
    return [f"{PREFIX}broadcast:{channel}", f"{PREFIX}broadcast:{channel}:until"]


PUBLISH = _script(
    _NOW
    + """
-- KEYS: messages, until. ARGV: name, message, ms until it expires, how many there may be.
-- Returns 0 if the channel is full.
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('HDEL', KEYS[1], name)
  redis.call('ZREM', KEYS[2], name)
end
if ARGV[3] == '0' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
  return 1
end
local is = redis.call('HMGET', KEYS[1], ARGV[1])[1]
if not is and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
local later = '(' .. now + ARGV[3]
if #redis.call('ZRANGEBYSCORE', KEYS[2], later, '+inf', 'LIMIT', 0, 1) == 0 then
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[3]) end
end
return 1
"""
)

MESSAGES = _script(
    _ALWAYS
    + _NOW
    + """
-- KEYS: until. Returns the names of the messages that have not expired.
return redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')
"""
)

SCRIPTS = (
    *(CREATE, ABANDON, CLAIM, APPEND, RENEW, PAGE, LIST, CHANGED_OWNERS, LOOK, END, TAKE),
    *(ASK_STOP, TELL, DELETE),
    *(FORGET_NAME, BEAT, FIND_LOST, FIND_HELD, HOLD, TAKE_ROWS, PUT_BACK_ROW, PUBLISH, MESSAGES),
)
