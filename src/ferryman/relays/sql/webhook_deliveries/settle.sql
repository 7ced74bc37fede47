-- pending -> delivered | dead; or pending still, to be tried again or handed back
-- A try that would come at or after the end is not waited for. Rows that somebody else is writing are named as busy.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select delivery.id, delivery.tenant, delivery.attempts, said.word, said.status, clock.now + said.wait as next_at,
           case when said.word in ('delivered', 'dead') then said.word
                when said.word = 'again' and clock.now + said.wait >= delivery.ends_at then 'dead' end as to_state,
           case when said.word = 'again' and clock.now + said.wait >= delivery.ends_at
                then said.error || ' (no time is left for another try)' else said.error end as error
    from clock, unnest(
        :ids::uuid[], :epochs::bigint[], :words::text[], :statuses::integer[], :errors::text[], :waits::interval[]
    ) as said (id, epoch, word, status, error, wait)
    join ferryman.webhook_deliveries as delivery on delivery.id = said.id
    where delivery.epoch = said.epoch
      and delivery.lease_owner = :owner
      and delivery.state = 'pending'
    order by delivery.id
    for update of delivery skip locked
),
ended as (
    update ferryman.webhook_deliveries as delivery
    set state = word.to_state, finished_at = clock.now, leased_until = null, lease_owner = null, last_status = word.status,
        last_error = word.error
    from word, clock
    where delivery.id = word.id
      and word.to_state is not null
    returning delivery.id
),
kept as (
    update ferryman.webhook_deliveries as delivery
    set leased_until = null, lease_owner = null, next_at = word.next_at,
        attempts = delivery.attempts - case when word.word = 'back' then 1 else 0 end,
        last_status = case when word.word = 'back' then delivery.last_status else word.status end,
        last_error = case when word.word = 'back' then delivery.last_error else word.error end
    from word
    where delivery.id = word.id
      and word.to_state is null
    returning delivery.id
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, reason_code, reason_message)
    select clock.now, word.id, word.attempts, word.tenant, 'webhook_delivery', 'pending', word.to_state,
           case word.to_state when 'dead' then 'WEBHOOK_UNDELIVERED' end, word.error
    from word, clock
    where word.to_state is not null
)
select word.id, coalesce(word.to_state, word.word) as word
from word
union all
select said.id, 'busy'
from unnest(:ids::uuid[], :epochs::bigint[]) as said (id, epoch)
join ferryman.webhook_deliveries as delivery on delivery.id = said.id
where delivery.epoch = said.epoch
  and delivery.lease_owner = :owner
  and delivery.state = 'pending'
  and said.id not in (select word.id from word)
