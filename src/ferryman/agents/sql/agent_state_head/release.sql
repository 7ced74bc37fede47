-- A running turn is given up by its holder, or taken from one whose lease has passed; it stays running and waits for another.
-- The epoch grows here, so that the holder before is fenced from this moment on, not only when somebody takes the turn.
-- Nobody is waited for; what somebody else is writing is named, so that its holder brings it again.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.epoch
    from unnest((select :ids::uuid[]), (select :epochs::bigint[])) as given (id, epoch)
    limit (select 1000000)
),
held as materialized (
    select head.id, word.id as turn
    from clock, word
    join ferryman.agent_state_head as head on head.active_agent_turn_id = word.id
    where head.turn_epoch = word.epoch
      and head.status = 'running'
      and head.ready_at is null
      and (:owner::uuid is null or head.lease_owner = :owner)
      and (not :lapsed::boolean or head.leased_until <= clock.now)
    order by head.tenant, head.agent_id
    for update of head skip locked
),
released as (
    update ferryman.agent_state_head as head
    set turn_epoch = head.turn_epoch + 1, updated_at = clock.now, ready_at = clock.now,
        leased_until = least(head.leased_until, clock.now)
    from clock, held
    where head.id = held.id
    returning head.tenant, head.agent_id, head.active_agent_turn_id, head.active_inbox_id, head.turn_epoch,
              head.active_channel_id
),
counted as (
    update ferryman.agent_inbox as message
    set requeue_count = message.requeue_count + 1
    from released
    where :lapsed::boolean
      and message.id = released.active_inbox_id
),
ledger as (
    update ferryman.turn_resume_ledger as result
    set status = 'pending', updated_at = clock.now, lease_owner = null, lease_expires_at = null,
        last_error = case when :lapsed::boolean then 'lease expired' else result.last_error end,
        attempt_count = result.attempt_count - case when :lapsed::boolean then 0 else 1 end
    from clock, released
    where result.agent_turn_id = released.active_agent_turn_id
      and result.status = 'processing'
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, data)
    select clock.now, released.active_agent_turn_id, released.tenant, 'agent.state', 'running', 'running', released.agent_id,
           case when :lapsed::boolean then 'lease_expired' else 'handed_back' end,
           jsonb_build_object('channel', released.active_channel_id, 'turn_epoch', released.turn_epoch)
    from released, clock
)
select active_agent_turn_id as id, true as moved
from released
union all
select word.id, false
from clock, word
join ferryman.agent_state_head as head on head.active_agent_turn_id = word.id
where head.turn_epoch = word.epoch
  and head.status = 'running'
  and head.ready_at is null
  and (:owner::uuid is null or head.lease_owner = :owner)
  and (not :lapsed::boolean or head.leased_until <= clock.now)
  and word.id not in (select held.turn from held)
