-- ready -> running, through gates
-- For queues whose gates were locked by the statement before (lock.sql) in this transaction. It must be a statement of its
-- own: its snapshot is younger than the lock, so it sees whatever was claimed under the lock by others. A limit that is
-- counted in the statement that locks is counted too early.
-- A slot is held as long as its row is leased. A lease that has passed still counts until it is reaped: until then its
-- holder may come back and renew it.
with recursive clock as materialized (
    select ferryman.clock() as now
),
allowed as materialized (
    -- How many more may start now, for each row of agreement. A rate of one start `each` s is spent `ahead` s into the future: by its
    -- whole burst at most. What lies further ahead was spent before the clock was set back, or of a slower rate: it is `void`.
    select queue.name, queue.tenant, queue.open, queue.key_concurrency, spent.void,
           clock.now + queue.burst * spent.each * interval '1 s' as closed_until,
           case when queue.paused_at is null then least(
               coalesce(queue.concurrency - (
                   select count(*)
                   from ferryman.tasks as held
                   where held.queue = queue.name
                     and (queue.tenant = '*' or held.tenant = queue.tenant)
                     and held.slot
                     and held.leased_until is not null
               ), 1000000),
               coalesce(spent.free, 1000000))
           else 0 end::integer as room,
           spent.each, spent.ahead - (queue.burst - 1) * spent.each as next
    from clock, ferryman.queues as queue
    cross join lateral (
        select rate.each, told.ahead, rate.void, floor(queue.burst - told.ahead / rate.each + 0.000001) as free
        from (select extract(epoch from queue.rate_interval)::float8 / queue.rate_count as each,
                     greatest(extract(epoch from queue.open_at - clock.now)::float8, 0) as ahead) as said
        cross join lateral (select said.each, said.ahead > (queue.burst + 1) * said.each as void) as rate
        cross join lateral (select case when rate.void then queue.burst * rate.each else said.ahead end as ahead) as told
    ) as spent
    where queue.name = any(:locked::text[])
),
lane as materialized (
    select given.queue, given.tenant, given.after, given.nth,
           -- Of a queue that is open only those tasks come through here that have a key.
           not whole.open or not coalesce(own.open, true) as gated,
           given.room as asked,
           greatest(least(given.room, whole.room, own.room), 0) as room,
           greatest(whole.room, 0) as queue_room,
           coalesce(own.key_concurrency, whole.key_concurrency, 1) as key_room,
           whole.each as whole_each, whole.next as whole_next, own.each as own_each, own.next as own_next
    from unnest(:queues::text[], :tenants::text[], :rooms::integer[], :afters::text[]) with ordinality
        as given (queue, tenant, room, after, nth)
    join allowed as whole on whole.name = given.queue and whole.tenant = '*'
    left join allowed as own on own.name = given.queue and own.tenant = given.tenant
),
key (nth, queue, tenant, room, key_room, limit_key, n) as (
    -- The keys of a lane that have something waiting, from where the last look ended: one index probe for each.
    select lane.nth, lane.queue, lane.tenant, lane.room, lane.key_room,
           (select min(task.limit_key)
            from ferryman.tasks as task
            where task.queue = lane.queue
              and task.tenant = lane.tenant
              and task.rank is not null
              and task.limit_key > lane.after),
           1
    from lane
    where lane.room > 0
    union all
    select key.nth, key.queue, key.tenant, key.room, key.key_room,
           (select min(task.limit_key)
            from ferryman.tasks as task
            where task.queue = key.queue
              and task.tenant = key.tenant
              and task.rank is not null
              and task.limit_key > key.limit_key),
           key.n + 1
    from key
    where key.limit_key is not null
      and key.n < greatest(key.room, :keys::integer)
),
width as materialized (
    -- Everybody's first comes before anybody's second, so of many keys a few of each fill the room: twice as many as are wanted,
    -- because some keys have no slot left. All that each key allows would be locked in vain.
    select key.nth, greatest(1, ceil(2.0 * least(max(key.room), :room::integer) / count(*)))::integer as most
    from key
    where key.limit_key is not null
    group by key.nth
),
slots as materialized (
    select key.nth, key.queue, key.tenant, key.limit_key, key.room, width.most,
           key.key_room - (
               select count(*)
               from ferryman.tasks as held
               where held.queue = key.queue
                 and held.tenant = key.tenant
                 and held.limit_key = key.limit_key
                 and held.slot
                 and held.leased_until is not null
           ) as free
    from key
    join width on width.nth = key.nth
    where key.limit_key is not null
),
plain as materialized (
    select lane.nth, lane.queue, lane.room, lane.queue_room, null::text as limit_key, pick.id, pick.rank
    from clock, lane
    cross join lateral (
        select ready.id, ready.rank
        from ferryman.tasks as ready
        where ready.queue = lane.queue
          and ready.tenant = lane.tenant
          and ready.rank is not null
          and ready.limit_key is null
          and ready.name = any(:names::text[])
          and ready.ends_at > clock.now
          and (ready.callback is null or ready.callback = any(:kinds::text[]))
        order by ready.rank, ready.id
        limit case when lane.gated then lane.room else 0 end
        for update skip locked
    ) as pick
),
keyed as materialized (
    select lane.nth, lane.queue, lane.room, lane.queue_room, slots.limit_key, pick.id, pick.rank
    from clock, slots
    join lane on lane.nth = slots.nth
    cross join lateral (
        select ready.id, ready.rank
        from ferryman.tasks as ready
        where ready.queue = slots.queue
          and ready.tenant = slots.tenant
          and ready.limit_key = slots.limit_key
          and ready.rank is not null
          and ready.name = any(:names::text[])
          and ready.ends_at > clock.now
          and (ready.callback is null or ready.callback = any(:kinds::text[]))
        order by ready.rank, ready.id
        limit greatest(0, least(slots.room, slots.free, slots.most))
        for update skip locked
    ) as pick
),
cut as materialized (
    -- Lanes in which a key has slots left, and perhaps more tasks for them.
    select slots.nth
    from slots
    join (select keyed.nth, keyed.limit_key, count(*) as count from keyed group by keyed.nth, keyed.limit_key) as got
        on got.nth = slots.nth and got.limit_key = slots.limit_key
    where slots.free > slots.most
      and got.count >= slots.most
    group by slots.nth
),
chosen as materialized (
    -- Everybody's first before anybody's second: keys of a lane, lanes of a queue, queues.
    select numbered.id
    from (
        select within.id, within.queue_room, within.nth, within.turn,
               row_number() over (partition by within.queue order by within.turn, within.nth, within.rank) as in_queue
        from (
            select fair.*, row_number() over (partition by fair.nth order by fair.turn, fair.rank) as in_lane
            from (
                select picked.*,
                       row_number() over (partition by picked.nth, picked.limit_key order by picked.rank, picked.id) as turn
                from (select * from plain union all select * from keyed) as picked
            ) as fair
        ) as within
        where within.in_lane <= within.room
    ) as numbered
    where numbered.in_queue <= numbered.queue_room
    order by numbered.turn, numbered.nth
    limit :room
),
claimed as (
    update ferryman.tasks as task
    set state = 'running', epoch = task.epoch + 1, lease_count = task.lease_count + 1, lease_owner = :owner,
        leased_until = least(clock.now + :lease::interval,
                             clock.now + task.timeout_ms * interval '1 ms' + :margin::interval),
        started_at = clock.now, updated_at = clock.now, rank = null, slot = true
    from clock, (select id, 'ready' as state from unnest(array(select chosen.id from chosen)) as chosen (id)
                 limit (select 1000000)) as picked
    where task.id = picked.id
      and task.state = picked.state
    returning task.id, task.epoch, task.tenant, task.task_id, task.queue, task.name, task.attempt, task.max_retries,
              task.timeout_ms, task.callback, task.callback_ref, task.traceparent, task.backoff, task.payload
),
spent as (
    update ferryman.queues as queue
    set open_at = greatest(queue.open_at, clock.now) + started.count * (queue.rate_interval / queue.rate_count)
    from clock, (
        select claimed.queue, '*' as tenant, count(*) as count from claimed group by claimed.queue
        union all
        select claimed.queue, claimed.tenant, count(*) from claimed group by claimed.queue, claimed.tenant
    ) as started
    where queue.name = started.queue
      and queue.tenant = started.tenant
      and queue.rate_count is not null
),
-- No row is in both: of what is void nothing has started.
made_good as (
    update ferryman.queues as queue
    set open_at = allowed.closed_until
    from allowed
    where queue.name = allowed.name
      and queue.tenant = allowed.tenant
      and allowed.void
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name)
    select clock.now, claimed.id, claimed.attempt, claimed.tenant, 'task', 'ready', 'running', claimed.task_id
    from claimed, clock
)
select id, epoch, tenant, task_id, queue, name, attempt, max_retries, timeout_ms, callback, callback_ref,
       traceparent, backoff, payload
from claimed
union all
-- Last, one row for each lane: up to which key it was looked into (under task_id; null: to the end), and (under payload) in how
-- many seconds its rate allows another start, whether something may wait there for a limit, and whether keys were cut short.
select null, null, lane.tenant, last.limit_key, lane.queue, null, null, null, null, null, null, null, null,
       jsonb_build_object(
           'open_seconds', nullif(greatest(lane.whole_next + lane.whole_each * started.in_queue,
                                           lane.own_next + lane.own_each * started.in_lane, 0), 0),
           'waits', lane.room < lane.asked or exists (select from key where key.nth = lane.nth and key.limit_key is not null),
           'cut', exists (select from cut where cut.nth = lane.nth))
from lane
cross join lateral (
    select count(*) as in_queue, count(*) filter (where claimed.tenant = lane.tenant) as in_lane
    from claimed
    where claimed.queue = lane.queue
) as started
left join lateral (
    select key.limit_key
    from key
    where key.nth = lane.nth
      and key.n >= greatest(key.room, :keys::integer)
) as last on true
