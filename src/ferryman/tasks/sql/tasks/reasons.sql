-- Why tasks were cancelled: the row keeps the cause of its last attempt, the log has the word of whoever cancelled it.
-- The limit keeps the planner at one lookup a row (see turn.sql).
select word.id, event.reason_message as reason
from (select id from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
cross join lateral (
    select each.reason_message
    from ferryman.events as each
    where each.subject = word.id
      and each.tenant = :tenant
      and each.to_state = 'cancelled'
    offset 0
) as event
