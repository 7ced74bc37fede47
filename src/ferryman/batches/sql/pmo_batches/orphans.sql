-- B11: running batches whose parent's turn has ended; of these turns, if some are named.
select batch.id
from ferryman.pmo_batches as batch
cross join lateral (
    select message.turn_status
    from ferryman.agent_inbox as message
    where message.id = batch.parent_agent_turn_id
    limit 1
) as parent
where batch.finished_at is null
  and batch.parent_agent_turn_id is not null
  and (:turns::uuid[] is null or batch.parent_agent_turn_id = any(:turns))
  and parent.turn_status is not null
limit :limit
