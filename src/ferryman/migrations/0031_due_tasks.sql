-- ferryman: no-transaction
-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- What a dispatch walks: the tasks of each tenant that are to be sent, in the order in which they are due, so that a walk ends
-- where the first is that was put off, however many those are.
create index concurrently if not exists pmo_batch_tasks_due on ferryman.pmo_batch_tasks (tenant, next_retry_at, batch_id)
    where status = 'pending' and retryable;
