-- A holder that lives says so; what is not in the answer is not its any more. Nobody is waited for (see tasks/renew.sql).
-- No lease outlasts the turn's wall time by more than the margin: a handler that hangs is taken from its worker then.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.epoch
    from unnest((select :ids::uuid[]), (select :epochs::bigint[])) as given (id, epoch)
    limit (select 1000000)
),
free as materialized (
    select head.id
    from word
    join ferryman.agent_state_head as head on head.active_agent_turn_id = word.id
    where head.turn_epoch = word.epoch
      and head.lease_owner = :owner
      and head.status = 'running'
    order by head.tenant, head.agent_id
    for update of head skip locked
),
moved as (
    update ferryman.agent_state_head as head
    set leased_until = least(clock.now + :lease::interval, head.turn_deadline + :margin::interval)
    from clock, free
    where head.id = free.id
    returning head.active_agent_turn_id as id
)
select head.active_agent_turn_id as id, word.id in (select moved.id from moved) as renewed
from word
join ferryman.agent_state_head as head on head.active_agent_turn_id = word.id
where head.turn_epoch = word.epoch
  and head.lease_owner = :owner
  and head.status = 'running'
