-- Facts are written down.
insert into ferryman.cards (
    tenant, id, created_at, agent_turn_id, step_id, type, role, author_id, tool_call_id, content, metadata)
select word.tenant, word.id, ferryman.clock(), word.turn, word.step, word.type, word.role, word.author, word.tool_call_id,
       word.content, word.metadata
from jsonb_to_recordset(:cards::jsonb) as word (
    tenant text, id uuid, turn uuid, step uuid, type text, role text, author text, tool_call_id text, content jsonb,
    metadata jsonb)
on conflict do nothing
returning id
