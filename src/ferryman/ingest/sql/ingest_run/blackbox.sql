-- What happened to the runs of a task, a plan or a run itself: everything that is known of each, in order.
select run.id as run_id, run.attempt, run.status, run.planned_at, run.started_at, run.finished_at, run.lease_owner, run.epoch,
       run.stats::text as stats, run.error_code, run.error_reason, task.id as task_id, task.status as task_status, task.source,
       task.endpoint, task.operation, task.expr_hash, task.slice_signature_hash, task.idempotent_key, task.lease_count,
       task.decision, task.slice_id, slice.slice_no, slice.spec::text as spec, slice.resliced_by, plan.id as plan_id,
       plan.plan_key, plan.expression::text as expression, plan.config::text as config, instance.id as schedule_instance_id,
       instance.job, instance.fire_time, instance.trigger_type,
       (select coalesce(jsonb_agg(jsonb_build_object(
            'id', batch.id, 'batch_no', batch.batch_no, 'status', batch.status, 'before', batch.before_token,
            'after', batch.after_token, 'has_next', batch.has_next, 'records', batch.record_count, 'requests', batch.requests,
            'at', batch.created_at, 'committed_at', batch.committed_at, 'error', batch.error_reason,
            'stats', batch.stats) order by batch.batch_no), '[]')
        from ferryman.ingest_batch as batch
        where batch.run_id = run.id)::text as batches,
       (select coalesce(jsonb_agg(jsonb_build_object(
            'seq', event.seq, 'at', event.at, 'kind', event.kind, 'from', event.prev_position, 'to', event.new_position)
            order by event.seq), '[]')
        from ferryman.ingest_cursor_event as event
        where event.cursor_id = slice.cursor_id
          and event.run_id = run.id)::text as cursor_events
from ferryman.ingest_run as run
join ferryman.ingest_task as task on task.id = run.task_id
join ferryman.ingest_slice as slice on slice.id = task.slice_id
join ferryman.ingest_plan as plan on plan.id = task.plan_id
join ferryman.ingest_schedule_instance as instance on instance.id = plan.schedule_instance_id
where task.tenant = :tenant
  and (run.id = :id or task.id = :id or plan.id = :id)
order by slice.slice_no, run.attempt
limit :limit
