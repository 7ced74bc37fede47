-- A move of a cursor, said before it is made; the same move is said once.
insert into ferryman.ingest_cursor_event (
    id, cursor_id, at, prev_position, new_position, plan_id, slice_id, task_id, run_id, batch_id, tenant, kind, idempotent_key, reason)
values (:id, :cursor_id, ferryman.clock(), :prev, :next, :plan_id, :slice_id, :task_id, :run_id, :batch_id, :tenant, :kind, :key, :reason)
on conflict (cursor_id, idempotent_key) do nothing
returning id
