-- (nothing) -> ready
-- An ended task is tried anew, as a new one that names it: terminal is final. What its creator asked for is taken over; its
-- task_id, its idempotency key and its callback belong to the old one. One live retry of a task at a time, and of a singleton
-- one live task.
with clock as materialized (
    select ferryman.clock() as now
),
born as (
    insert into ferryman.tasks (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, traceparent, backoff, limit_key, singleton, retry_of,
        due_at, ends_at, state, rank, created_at, updated_at
    )
    select word.new_id, old.tenant, old.queue, old.name, old.payload, old.priority, old.timeout_ms, old.max_retries,
        old.traceparent, old.backoff, old.limit_key, old.singleton, old.id,
        clock.now, clock.now + :ends_after::interval, 'ready', clock.now + old.priority * interval '60 s', clock.now, clock.now
    from clock, unnest(:ids::uuid[], :new_ids::uuid[]) as word (id, new_id)
    cross join lateral (select each.* from ferryman.tasks as each where each.id = word.id offset 0) as old
    where old.tenant = :tenant
      and old.state in ('failed', 'cancelled')
      and (not :untried::boolean or not exists (select from ferryman.tasks as tried where tried.retry_of = old.id))
    order by old.id
    on conflict do nothing
    returning id, retry_of, tenant, queue, limit_key, created_at
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, to_state)
    select born.created_at, born.id, 1, born.tenant, 'task', 'ready'
    from born
)
select id, retry_of, queue, limit_key
from born
