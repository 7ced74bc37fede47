-- The agents whose turns led to this one, itself included.
with recursive line as (
    select message.id, message.agent_id, message.source_turn_id, message.tenant, 1 as length
    from ferryman.agent_inbox as message
    where message.id = :turn
      and message.tenant = :tenant
    union all
    select message.id, message.agent_id, message.source_turn_id, message.tenant, line.length + 1
    from line
    join ferryman.agent_inbox as message on message.id = line.source_turn_id
    where message.tenant = line.tenant
      and line.length < 1000
)
select distinct agent_id
from line
