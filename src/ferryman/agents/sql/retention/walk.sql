-- T20 finds: a message, of a turn or another, that ended longer ago than such are kept. A page of a walk along the primary key, from
-- where the last one stopped; ids younger than the time of keeping are passed over (see tasks/sql/retention/walk.sql).
-- A turn stays while whoever asked for it lives, while something live reads its boxes, and while it is the last of an agent that is
-- no derived one: a clone begins with what that one wrote. So does the last of a derived agent that a batch has still to send a task to.
with clock as materialized (
    select ferryman.clock() as now,
           ferryman.id_at(ferryman.clock() - :kept::interval) as young,
           ferryman.id_at(greatest(ferryman.clock(), clock_timestamp())) as newest
),
walk as materialized (
    select place.after_id
    from ferryman.retention as place, clock
    where place.domain = 'turn'
      and (place.next_at <= clock.now or place.next_at > clock.now + greatest(:pace::interval, :rest::interval))
    for update of place skip locked
),
page as materialized (
    select part.*
    from clock, walk
    cross join lateral (
        (
            select 1 as stretch, message.id, message.tenant, message.agent_id, message.agent_turn_id, message.archived_at,
                   message.source_turn_id, message.context_box_id, message.output_box_id
            from ferryman.agent_inbox as message
            where message.id > walk.after_id
              and message.id < clock.young
            order by message.id
            limit :span
        )
        union all
        (
            select 2, message.id, message.tenant, message.agent_id, message.agent_turn_id, message.archived_at,
                   message.source_turn_id, message.context_box_id, message.output_box_id
            from ferryman.agent_inbox as message
            where message.id > greatest(walk.after_id, clock.newest)
            order by message.id
            limit :span
        )
    ) as part
    order by part.stretch, part.id
    limit :span
),
old as materialized (
    select page.*
    from clock, page
    where page.archived_at <= clock.now - :kept::interval
),
used as materialized (
    select each.id
    from ferryman.boxes_in_use() as each (id)
    where exists (select from old)
),
owed as materialized (
    select distinct task.tenant, task.agent_id
    from ferryman.pmo_batch_tasks as task
    where task.status = 'pending'
      and task.retryable
      and exists (select from old)
),
past as materialized (
    select old.stretch, old.id
    from clock, old
    -- One lookup a row, whatever the planner thinks of the tables.
    left join lateral (
        select each.id, each.last_output_box_id, each.status, each.since_at
        from ferryman.agent_state_head as each
        where each.tenant = old.tenant
          and each.agent_id = old.agent_id
        limit 1
    ) as head on true
    left join lateral (
        select each.derived_from
        from ferryman.agents as each
        where each.id = head.id
        limit 1
    ) as agent on true
    left join lateral (
        select each.archived_at is null as live
        from ferryman.agent_inbox as each
        where each.id = old.source_turn_id
        limit 1
    ) as asking on true
    where old.agent_turn_id is distinct from old.id
       or (not exists (select from used where used.id in (old.context_box_id, old.output_box_id))
           and asking.live is not true
           and (head.last_output_box_id is distinct from old.output_box_id
                or (agent.derived_from is not null and head.status = 'idle' and head.since_at <= clock.now - :kept::interval
                    and not exists (select from owed where owed.tenant = old.tenant and owed.agent_id = old.agent_id))))
    order by old.stretch, old.id
    limit :limit
),
reached as materialized (
    select case when (select count(*) from past) = :limit then (select past.id from past order by past.stretch desc, past.id desc limit 1)
                when (select count(*) from page) = :span then (select page.id from page order by page.stretch desc, page.id desc limit 1)
           end as id,
           (select count(*) from past) = :limit as full_set
),
moved as (
    update ferryman.retention as place
    set after_id = coalesce(reached.id, '00000000-0000-0000-0000-000000000000'),
        next_at = clock.now + case when reached.full_set then interval '0'
                                   when reached.id is not null then :pace::interval
                                   else :rest::interval end
    from clock, walk, reached
    where place.domain = 'turn'
)
select past.id
from past
