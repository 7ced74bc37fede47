-- A message goes along with a turn that waits: its instruction stands behind that turn's, and it ends when that turn does (A20).
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.tenant, given.id, given.into_turn
    from unnest((select :tenants::text[]), (select :ids::uuid[]), (select :turns::uuid[])) as given (tenant, id, into_turn)
    limit (select 1000000)
),
led as materialized (
    select leader.tenant, leader.id, leader.context_box_id
    from (select distinct tenant, into_turn from word) as word
    join ferryman.agent_inbox as leader on leader.id = word.into_turn
    where leader.tenant = word.tenant
      and leader.status = 'queued'
    order by leader.tenant, leader.id
    for update of leader
),
merged as (
    update ferryman.agent_inbox as message
    set merged_into = led.id
    from word
    join led on led.id = word.into_turn
    where message.id = word.id
      and message.status = 'queued'
    returning message.tenant, message.id, message.context_box_id, led.context_box_id as box_id
),
boxed as (
    update ferryman.boxes as box
    set card_ids = box.card_ids || added.card_ids, updated_at = clock.now
    from clock, (
        select merged.box_id, array_agg(listed.id order by merged.id, listed.nth) as card_ids
        from merged
        join ferryman.boxes as mine on mine.id = merged.context_box_id
        cross join lateral unnest(mine.card_ids) with ordinality as listed (id, nth)
        group by merged.box_id
    ) as added
    where box.id = added.box_id
)
select id
from merged
