-- A gate is told what became of requests, and asked for slots: one row, one statement, in that order.
-- Slots are one interval apart and follow those that were leased before, whoever holds them; so nobody counts anything, and the
-- slots of an executor that died pass like any time. A gate that was idle has some to spare: the burst.
-- No slot is leased further ahead than :horizon: what is leased cannot be called back when the rate falls.
with gate as (
    select gate.source, gate.endpoint, gate.credential, gate.top, gate.floor, gate.burst, gate.rate, gate.halvings,
        gate.spent_until, gate.closed_until, gate.quota_left, gate.quota_until
    from ferryman.ingest_gate as gate
    where gate.source = :source
      and gate.endpoint = :endpoint
      and gate.credential = :credential
    for no key update
), clocked as materialized (
    select gate.*, ferryman.clock() as now, :slow::boolean and gate.halvings = :halvings::bigint as falls
    from gate
), told as materialized (
    select clocked.*,
        case when falls then greatest(floor, rate / 2) else least(top, rate + :gain::float8) end as pace,
        -- Closed for longer than anybody may close it: the clock was moved back. Kept so, or it would move on with the time.
        greatest(least(closed_until, now + :longest::interval), now + :closed_for::interval) as opens_at,
        -- The source does not know of slots that are leased and not used yet: near the end they count.
        case when quota_until > now and (:quota_left::bigint is null or :quota_left::bigint <= 2 * rate * extract(epoch from :lot::interval))
            then least(quota_left, :quota_left::bigint) else :quota_left::bigint end as left_over,
        case when quota_until > now then least(quota_until, now + :longest::interval)
             when :quota_left::bigint is not null then now + :quota_for::interval end as lasts
    from clocked
), spaced as materialized (
    -- Nothing is leased further ahead than this: what is beyond it was leased before the clock was moved back.
    select told.*, interval '1 second' / pace as every,
        least(spent_until, now + :horizon::interval + greatest(:lot::interval, interval '1 second' / floor)) as spent
    from told
), placed as materialized (
    select spaced.*,
        greatest(spent, now - (burst - 1) * every, opens_at, case when left_over = 0 then lasts end) as first_at
    from spaced
), counted as materialized (
    select placed.*,
        case when first_at <= now + :horizon::interval then
            least(:wish::bigint, left_over, greatest(1, floor(extract(epoch from now + :lot::interval - first_at) * pace)::bigint))
            else 0 end as slots
    from placed
)
update ferryman.ingest_gate as gate
set rate = counted.pace,
    halvings = counted.halvings + counted.falls::integer,
    halved_at = case when counted.falls then counted.now else gate.halved_at end,
    spent_until = case when counted.slots > 0 then counted.first_at + counted.slots * counted.every else counted.spent end,
    closed_until = counted.opens_at,
    quota_left = counted.left_over - counted.slots,
    quota_until = counted.lasts,
    good = gate.good + :good::bigint,
    slow = gate.slow + :bad::bigint,
    last_status = coalesce(:last_status::integer, gate.last_status),
    updated_at = counted.now
from counted
where gate.source = counted.source
  and gate.endpoint = counted.endpoint
  and gate.credential = counted.credential
returning counted.now, gate.rate, gate.halvings, counted.slots, counted.first_at,
    extract(epoch from counted.every)::float8 as every_seconds, gate.spent_until
