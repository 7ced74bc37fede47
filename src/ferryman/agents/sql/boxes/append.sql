-- A live turn writes into its output box; nobody else does (A8). What is not in the answer was not the writer's any more.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select said.*
    from (
        select given.*
        from jsonb_to_recordset(:cards::jsonb) as given (
            tenant text, turn uuid, epoch bigint, id uuid, step uuid, type text, role text, author text, tool_call_id text,
            content jsonb, metadata jsonb, nth integer)
        limit (select 1000000)
    ) as said
    limit (select 1000000)
),
mine as materialized (
    select word.*, head.output_box_id
    from word
    join ferryman.agent_state_head as head on head.active_agent_turn_id = word.turn
    where head.tenant = word.tenant
      and head.turn_epoch = word.epoch
      and head.status = 'running'
    order by head.tenant, head.agent_id
    for share of head
),
written as (
    insert into ferryman.cards (
        tenant, id, created_at, agent_turn_id, step_id, type, role, author_id, tool_call_id, content, metadata)
    select mine.tenant, mine.id, clock.now, mine.turn, mine.step, mine.type, mine.role, mine.author, mine.tool_call_id,
           mine.content, mine.metadata
    from mine, clock
    on conflict do nothing
    returning id
)
update ferryman.boxes as box
set card_ids = box.card_ids || added.card_ids, updated_at = clock.now
from clock, (
    select mine.tenant, mine.turn, mine.output_box_id, array_agg(mine.id order by mine.nth) as card_ids
    from mine
    where (mine.id in (select written.id from written)) is true
    group by mine.tenant, mine.turn, mine.output_box_id
) as added
where box.id = added.output_box_id
returning added.turn as id
