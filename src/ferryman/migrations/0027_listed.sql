-- ferryman: no-transaction
-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- Each of these statements stands alone.
-- Results are born consumed: the statement that brings one does all there is to do with it.
create or replace trigger agent_inbox_status_births
before insert on ferryman.agent_inbox
for each row
when ((new.status in ('queued', 'pending', 'processing', 'consumed')) is not true)
execute function ferryman.refuse_move('MESSAGE_INVALID_TRANSITION', 'status', 'id');

-- Commands of a tenant, newest first: all of them, those of a session, those that live, those that failed. No index names the
-- status: a command that is taken in hand would then be written into every index of its table.
create index concurrently if not exists command_inbox_listed on ferryman.command_inbox (tenant, id);
create index concurrently if not exists command_inbox_session on ferryman.command_inbox (tenant, session_id, id) where session_id is not null;
create index concurrently if not exists command_inbox_live on ferryman.command_inbox (tenant, id) where finished_at is null;
create index concurrently if not exists command_inbox_failed on ferryman.command_inbox (tenant, id) where error_message is not null;

-- Batches that run, among all that have ended.
create index concurrently if not exists pmo_batches_running on ferryman.pmo_batches (tenant, id) where finished_at is null;
