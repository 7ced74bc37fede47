-- The agents whose turns led to these, their own included.
with recursive line as (
    select word.turn, message.id, message.agent_id, message.source_turn_id, message.tenant, 1 as length
    from unnest((select :turns::uuid[]), (select :tenants::text[])) as word (turn, tenant)
    join ferryman.agent_inbox as message on message.id = word.turn
    where message.tenant = word.tenant
    union all
    select line.turn, message.id, message.agent_id, message.source_turn_id, message.tenant, line.length + 1
    from line
    join ferryman.agent_inbox as message on message.id = line.source_turn_id
    where message.tenant = line.tenant
      and line.length < 1000
)
select distinct turn, agent_id
from line
