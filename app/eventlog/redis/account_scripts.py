"""Accounts, reservations and rows in Redis: their keys, and the parts of scripts that change them.

- `account:<digest of its name>`: how many streams run, its day, its month, each as the numbers of
  `accounts.Period` but for those of its `other`, and the spans of its last minute: number, requests
  and tokens. Each `other` and `ahead` that is set has three numbers among these, which an earlier
  version drops like a span of long ago: -2 (day), -9 (month) or -16 (`ahead`), itself, and
  `other_nano_usd`. All of them are doubles, which a script reads and writes fastest (2 and 3 us,
  and 7 and 7 in MessagePack). It expires after more than a month without use.
- `held`, a hash: the reservation of each stream. Removing it is the settlement, so that a stream
  is settled once, however often a script is sent.
- `holds`, a sorted set: when each of those streams is checked, in ms of Redis's clock.
- `rows`, a hash: the row of each ended stream, until the records database has it.
- `rows:due`, a sorted set: when each row may be taken, in ms of Redis's clock.
- `rows:dropped`: how many rows were dropped and are not logged yet.
- `webhook:NAME` and the same two keys below it: the rows for a webhook.

The arithmetic is that of `app.ledger.accounts`, to which a test compares it. Numbers are doubles
here, which are exact up to 2**53: nine million USD.
"""

from collections.abc import Mapping
from hashlib import sha256

from ...ledger.accounts import SKEW_S
from ...ledger.config import LIMITS
from ..waiting_rows import MAX_ROWS, RECORDS

PREFIX = "seseragi:"

FORMAT = 1
FORMAT_KEY = f"{PREFIX}format"
"""The newest format that a relay has used. A key whose content changes gets another name, is read
by the old one too, and is carried from it: relays of both versions run during a roll."""

HELD = f"{PREFIX}held"
HOLDS = f"{PREFIX}holds"


def queue_keys(queue: str) -> tuple[str, str, str]:
    """Return the keys of a queue: its rows, when they are due, how many were dropped."""
    return f"{PREFIX}{queue}", f"{PREFIX}{queue}:due", f"{PREFIX}{queue}:dropped"


ROWS, ROWS_DUE, ROWS_DROPPED = queue_keys(RECORDS)

KEPT_MS = 40 * 86_400_000
"""How long all of these keys outlive their last change."""

LOOKS = 4
"""After how many leases a stream with a reservation is checked again."""


_USED: Mapping[tuple[str, str | None], tuple[int | str, ...]] = {
    ("streams", None): (1,),
    ("requests", "minute"): ("requests",),
    ("tokens", "minute"): ("tokens",),
    ("nano_usd", "day"): (6, 8),
    ("nano_usd", "month"): (13, 15),
}
USED = {limit: _USED[limit.counts, limit.per] for limit in LIMITS}
"""By limit the keys, in an account's state, of the numbers that count against it."""


def account_key(name: str) -> str:
    return f"{PREFIX}account:{sha256(name.encode()).hexdigest()}"


_ACCOUNTS = (
    f"local KEPT_MS, HELD, HOLDS = {KEPT_MS}, '{HELD}', '{HOLDS}'"
    + """
-- The numbers of an account: 1 streams that run, 2 to 8 of its day, 9 to 15 of its month, and of
-- each span three more.
local function numbers_of(packed)
  local state = {struct.unpack('<' .. string.rep('d', #packed / 8), packed)}
  state[#state] = nil  -- the position after the last number
  return state
end

-- Setting a time to live costs more than the rest: an account gets a new one once a day.
local function keep(key, state, anew)
  for j = -2, -16, -7 do  -- what `turn` has taken out
    if (state[j] or 0) > 0 then
      state[#state + 1], state[#state + 2], state[#state + 3] = j, state[j], state[j - 1] or 0
    end
  end
  local packed = struct.pack('<' .. string.rep('d', #state), unpack(state))
  if anew then
    redis.call('SET', key, packed, 'PX', KEPT_MS)
  else
    redis.call('SET', key, packed, 'KEEPTTL')
  end
end
"""
)

RESERVE = (
    _ACCOUNTS
    + f"local LOOKS, SKEW_S = {LOOKS}, {SKEW_S}"
    + """
-- The month of a day since 1970, in months since the year 0: `month_of` of `app.ledger.accounts`.
local function month_of(day)
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524)
    - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  return (yoe + era * 400 + (month <= 2 and 1 or 0)) * 12 + month - 1
end

-- `Period.turn` for the numbers from `j` on; its `other` is at `-j`.
local function turn_period(state, j, number, latest)
  local before, other, nano = state[j], state[-j] or 0, state[-j - 1] or 0
  if number <= before and before <= latest then return false end
  local begins = number > before and number ~= other
  if begins then
    nano = state[j + 4]
    for i = j + 1, j + 5 do state[i] = 0 end
  elseif number > before then
    state[j + 4] = state[j + 4] - nano
  elseif number == other then
    state[j + 4] = state[j + 4] + nano
  else
    nano = 0
  end
  state[-j], state[-j - 1] = number > before and before or math.max(before, other), nano
  state[j], state.turned = number, true
  return begins
end

-- `AccountState.turn`, keeping the spans of the last minute. Returns their requests and tokens, the
-- last span or -1, and the index of the request's own span.
local function turn(state, day, month, span)
  local top = #state
  while top > 15 and state[top - 2] < 0 do
    local j = state[top - 2]
    state[j], state[j - 1] = state[top - 1], state[top]
    top = top - 3
  end
  turn_period(state, 9, month, month_of(day + 1))
  if turn_period(state, 2, day, day + 1) and state[-9] and state[-9] > month then state[-9] = 0 end
  local ahead, oldest, newest = state[-16] or 0, span - 13, span + SKEW_S / 5
  local returned, furthest = ahead > oldest and ahead <= span, -1
  local requests, tokens, last, own, n = 0, 0, -1, nil, 15
  for i = 16, top, 3 do
    local at, of_span, used = state[i], state[i + 1], state[i + 2]
    if at > newest or at <= oldest then
      furthest = math.max(furthest, at)
      if at > newest or returned then at = span end
    end
    if own and at == span then
      state[own + 1], state[own + 2] = state[own + 1] + of_span, state[own + 2] + used
      requests, tokens = requests + of_span, tokens + used
    elseif at > oldest then
      if at == span then own = n + 1 end
      state[n + 1], state[n + 2], state[n + 3] = at, of_span, used
      n = n + 3
      requests, tokens = requests + of_span, tokens + used
      if at > last then last = at end
    end
  end
  for i = #state, n + 1, -1 do state[i] = nil end
  if furthest >= 0 then
    state[-16], state.turned = furthest > newest and math.max(ahead, furthest) or 0, true
  end
  return requests, tokens, last, own or n + 1
end

-- The lower of `most` and the room of one account; nothing if that is not enough. A limit is what
-- the start of the stream leaves of it, what a token of the answer takes, and the keys of the
-- numbers that count against it.
local function room(limits, state, least, most)
  for _, limit in ipairs(limits) do
    local left, each = limit[1], limit[2]
    for i = 3, #limit do left = left - state[limit[i]] end
    if left < each * least then return nil end
    if each > 0 then most = math.min(most, math.floor(left / each)) end
  end
  return most
end

-- Reserves in all accounts of a request or in none. Returns whether it did, and: the accounts that
-- were read, and the time; or the longest answer, the time, and of each account with limits of a
-- minute its number, requests, tokens and last span.
-- A request with the length `given` was granted before and is not refused.
local function reserve(stream, owner, lease, packed, info)
  local request = cmsgpack.unpack(packed)
  local at, input, most, least, choices, input_nano, output_nano, given, accounts = unpack(request)
  if at < 0 then at = now end
  local day, span = math.floor(at / 86400000), math.floor(at / 5000)
  local month = month_of(day)
  local looked, found = {}, {}
  for i, account in ipairs(accounts) do
    local known = redis.call('GET', account[1])
    looked[i] = known or ''
    local state = known and numbers_of(known) or {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
    local anew = day > state[2]
    local requests, tokens, last, own = turn(state, day, month, span)
    if given < 0 then
      state.requests, state.tokens = requests, tokens
      most = room(account[3], state, least, most)
    end
    found[i] = {state, anew or not known, requests, tokens, last, own}
    if not most then
      for j = 1, i do
        if found[j][1].turned and looked[j] ~= '' then keep(accounts[j][1], unpack(found[j])) end
      end
      return false, {looked, at}
    end
  end
  if given >= 0 then most = given end
  local output = most * choices
  local held, nano = input + output, input_nano + output * output_nano
  local numbers, reply = {}, {most, at}
  for i, account in ipairs(accounts) do
    local state, anew, requests, tokens, last, own = unpack(found[i])
    state[1] = state[1] + 1
    state[8], state[15] = state[8] + nano, state[15] + nano
    if account[2] then
      local n = #reply
      state[own] = span
      state[own + 1] = (state[own + 1] or 0) + 1
      state[own + 2] = (state[own + 2] or 0) + held
      reply[n + 1], reply[n + 2], reply[n + 3] = i, requests + 1, tokens + held
      reply[n + 4] = math.max(last, span)
    end
    keep(account[1], state, anew)
    local n = #numbers
    numbers[n + 1], numbers[n + 2], numbers[n + 3] = account[1], day, month
    -- Day and month are for relays of an earlier version.
  end
  local hold = {owner, most, span, held, nano, info, numbers}
  redis.call('HSET', HELD, stream, cmsgpack.pack(hold))
  redis.call('ZADD', HOLDS, now + LOOKS * lease, stream)
  redis.call('PEXPIRE', HELD, KEPT_MS)
  redis.call('PEXPIRE', HOLDS, KEPT_MS)
  return true, reply
end
"""
)
"""Needs `now`, by which periods begin. Its request is what `accounts.pack_request` returns."""

SETTLE = (
    _ACCOUNTS
    + f"""
local PREFIX, MAX_ROWS = '{PREFIX}', {MAX_ROWS}
"""
    + """
local function keep_row(queue, stream, row)
  local ROWS = PREFIX .. queue
  local DUE, DROPPED = ROWS .. ':due', ROWS .. ':dropped'
  local time = redis.call('TIME')
  redis.call('HSET', ROWS, stream, row)
  redis.call('ZADD', DUE, time[1] * 1000 + time[2] / 1000, stream)
  redis.call('PEXPIRE', ROWS, KEPT_MS)
  redis.call('PEXPIRE', DUE, KEPT_MS)
  if redis.call('ZCARD', DUE) <= MAX_ROWS then return end
  local oldest = redis.call('ZRANGEBYSCORE', DUE, '-inf', '+inf', 'LIMIT', 0, 1)[1]
  redis.call('ZREM', DUE, oldest)
  redis.call('HDEL', ROWS, oldest)
  redis.call('SET', DROPPED, (redis.call('GET', DROPPED) or 0) + 1, 'PX', KEPT_MS)
end

-- Replaces the reservation of a stream, if it has one, by its cost: `spent` is that of
-- `accounts.pack_settlement`, or nothing for a stream that never began.
local function settle(stream, spent)
  local packed = redis.call('HMGET', HELD, stream)[1]
  if not packed then return false end
  redis.call('HDEL', HELD, stream)
  redis.call('ZREM', HOLDS, stream)
  local input, output, nano, streams, queues, row = 0, 0, 0, 0, '', ''
  if spent then
    local numbers = '^(%S+) (%S+) (%S+) (%S+) '
    input, output, nano, streams, queues, row = string.match(spent, numbers .. '(%S+) (.*)$')
    nano = tonumber(nano)
  end
  local unpriced = nano < 0 and 1 or 0
  nano = math.max(0, nano)
  local _, _, span, tokens, held, _, numbers = unpack(cmsgpack.unpack(packed))
  for i = 1, #numbers, 3 do
    local known = redis.call('GET', numbers[i])
    if known then
      local state = numbers_of(known)
      state[1] = math.max(0, state[1] - 1)
      for j = 2, 9, 7 do
        state[j + 1], state[j + 2] = state[j + 1] + streams, state[j + 2] + input
        state[j + 3], state[j + 4] = state[j + 3] + output, state[j + 4] + nano
        state[j + 5], state[j + 6] = state[j + 5] + unpriced, math.max(0, state[j + 6] - held)
      end
      for j = 16, #state, 3 do
        if state[j] == span then state[j + 2] = state[j + 2] + input + output - tokens end
      end
      keep(numbers[i], state)
    end
  end
  if row ~= '' then
    for queue in string.gmatch(queues, '[^\\1]+') do keep_row(queue, stream, row) end
  end
  return true
end
"""
)

FIND_HELD = """
-- KEYS: holds, owners. ARGV: how many, ms until they are checked again. Returns streams with a
-- reservation and without a living owner: orphaned ones, and those that have ended or of which
-- Redis has nothing else, whose owner cannot restore them.
local lost, living = {}, nil
for _, stream in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local meta = 'seseragi:{' .. stream .. '}:meta'
  local is = redis.call('HMGET', meta, 'lease', 'ended', 'gone')
  local packed = redis.call('HMGET', 'seseragi:held', stream)[1]
  if not packed then
    redis.call('ZREM', KEYS[1], stream)
  else
    redis.call('ZADD', KEYS[1], now + ARGV[2], stream)
    if is[1] and not is[2] and not is[3] then
      if tonumber(is[1]) < now then lost[#lost + 1] = stream end
    else
      if not living then
        living = {}
        for _, owner in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], now, '+inf')) do
          living[owner] = true
        end
      end
      if not living[cmsgpack.unpack(packed)[1]] then lost[#lost + 1] = stream end
    end
  end
end
return lost
"""

HOLD = """
-- KEYS: held. ARGV: stream. Returns its reservation, tokens and nano-USD, and its info; or
-- nothing.
local packed = redis.call('HMGET', KEYS[1], ARGV[1])[1]
if not packed then return false end
local hold = cmsgpack.unpack(packed)
return {string.format('%.0f', hold[4]), string.format('%.0f', hold[5]), hold[6]}
"""

TAKE_ROWS = """
-- KEYS: rows, due, dropped. ARGV: how many, for how many ms they are leased to the caller. Returns
-- how many were dropped since the last call, then streams with their rows, the oldest first.
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000  -- not less than that of a row just kept
local dropped = tonumber(redis.call('GET', KEYS[3]) or 0)
if dropped > 0 then redis.call('DEL', KEYS[3]) end
local taken = {dropped}
for _, stream in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local row = redis.call('HMGET', KEYS[1], stream)[1]
  if row then
    redis.call('ZADD', KEYS[2], now + ARGV[2], stream)
    taken[#taken + 1], taken[#taken + 2] = stream, row
  else
    redis.call('ZREM', KEYS[2], stream)
  end
end
return taken
"""

PUT_BACK_ROW = """
-- KEYS: rows, due. ARGV: stream, row, ms until it is due. Does nothing if the row was forgotten.
if not redis.call('HMGET', KEYS[1], ARGV[1])[1] then return 0 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], time[1] * 1000 + time[2] / 1000 + ARGV[3], ARGV[1])
return 1
"""
