-- Heads in the order in which everybody locks them; waits for who holds one.
with word as materialized (
    select distinct given.tenant, given.agent_id
    from unnest((select :tenants::text[]), (select :agent_ids::text[])) as given (tenant, agent_id)
    order by given.tenant, given.agent_id
    limit (select 1000000)
),
held as materialized (
    select locked.*
    from (select tenant, agent_id from word order by tenant, agent_id limit (select 1000000)) as word
    cross join lateral (
        select head.id, head.tenant, head.agent_id, head.status, head.turn_epoch, head.active_agent_turn_id, head.callback,
               head.callback_ref, head.active_recursion_depth, head.output_box_id, head.last_output_box_id, head.profile,
               head.worker_target, head.lease_owner
        from ferryman.agent_state_head as head
        where head.tenant = word.tenant
          and head.agent_id = word.agent_id
        for update
    ) as locked
)
select held.tenant, held.agent_id, held.status, held.turn_epoch, held.active_agent_turn_id, held.callback, held.callback_ref,
       held.active_recursion_depth, held.output_box_id, held.last_output_box_id, held.profile, held.worker_target,
       held.lease_owner, agent.when_busy
from held
join ferryman.agents as agent on agent.id = held.id
