-- T20's way for the other domains: places for their walks, and how the boxes and cards of forgotten turns leave.
-- The tables are as new as the release that brings both: there is nothing in them whose writing could be held up.
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion, ban-drop-constraint

insert into ferryman.retention (domain) values ('turn'), ('batch'), ('ingest_plan');

-- Claims ask tenant by tenant, so that a flood of one starves nobody.
create index agent_state_head_line on ferryman.agent_state_head (tenant, ready_at) where ready_at is not null;
drop index ferryman.agent_state_head_ready;

-- When a budget was used last: one that is used again and again is not forgotten with the turn that it was made for.
alter table ferryman.budgets add column updated_at timestamptz;

-- The boxes that something live reads or writes.
create function ferryman.boxes_in_use() returns setof uuid
language sql stable as $$
    select used.id
    from (
        select message.context_box_id, message.output_box_id
        from ferryman.agent_inbox as message
        where message.archived_at is null
        union all
        select task.context_box_id, task.output_box_id
        from ferryman.pmo_batches as batch
        join ferryman.pmo_batch_tasks as task on task.batch_id = batch.id
        where batch.finished_at is null
    ) as live
    cross join lateral (values (live.context_box_id), (live.output_box_id)) as used (id)
    where used.id is not null
$$;

-- Boxes of forgotten turns leave, and with them the cards that these turns wrote. A box that was written, or given to a turn, since
-- `before` stays; so does what an agent wrote last, and whatever something live reads. The boxes are locked first, and looked at
-- after that: whoever takes cards over from a box holds it.
create function ferryman.forget_boxes(boxes uuid[], turns uuid[], before timestamptz) returns integer
language plpgsql as $$
declare
    free uuid[];
begin
    free := array(
        select box.id from ferryman.boxes as box
        where box.id = any(forget_boxes.boxes) and box.updated_at <= forget_boxes.before
        order by box.id
        for update skip locked);
    free := array(
        select each.id from unnest(free) as each (id)
        except
        select used.id from ferryman.boxes_in_use() as used (id)
        except
        select head.last_output_box_id from ferryman.agent_state_head as head where head.last_output_box_id = any(free));
    if free = '{}' then
        return 0;
    end if;
    delete from ferryman.cards as card
    using (
        select listed.id
        from ferryman.boxes as box
        cross join lateral unnest(box.card_ids) as listed (id)
        where box.id = any(free)
        except
        select listed.id
        from ferryman.boxes_in_use() as used (id)
        join ferryman.boxes as box on box.id = used.id
        cross join lateral unnest(box.card_ids) as listed (id)
    ) as left_over
    where card.id = left_over.id
      and card.agent_turn_id = any(forget_boxes.turns);
    delete from ferryman.boxes as box where box.id = any(free);
    return cardinality(free);
end
$$;

-- A batch's slice is that of its task, which the table says already: looking for it would read every batch there is.
alter table ferryman.ingest_batch drop constraint ingest_batch_slice_id_fkey;
create index ingest_plan_instance on ferryman.ingest_plan (schedule_instance_id);
