-- ferryman: no-transaction
-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- Batches that have ended, by when: ids of batches do not tell the time, and doctor looks for those that are kept too long.
create index concurrently if not exists pmo_batches_ended on ferryman.pmo_batches (finished_at) where parent_told_at is not null;
