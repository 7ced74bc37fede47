-- The table is as new as the release that brings both: there is nothing in it whose writing could be held up.
-- squawk-ignore-file require-concurrent-index-creation

-- The turns of an agent, newest first: what people ask for. None of its columns changes in a turn's life.
create index agent_inbox_turns on ferryman.agent_inbox (tenant, agent_id, created_at) where agent_turn_id = id;
