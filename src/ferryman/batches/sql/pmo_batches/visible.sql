-- Which of these boxes a caller may see, with their cards (B3): those that it was given or wrote, in this turn or an earlier
-- one, and those of tasks that it forked. Somebody outside of an agent sees those of the tenant. They are held, so that none is
-- forgotten before the contexts that take its cards over are there.
select box.id, box.card_ids
from unnest((select :ids::uuid[])) as given (id)
join ferryman.boxes as box on box.id = given.id and box.tenant = :tenant
where :agent_id::text is null
   or box.id in (:context_box::uuid, :output_box::uuid)
   or exists (select from ferryman.agent_inbox as message
              where message.tenant = :tenant
                and message.agent_id = :agent_id
                and message.agent_turn_id = message.id
                and box.id in (message.context_box_id, message.output_box_id))
   or exists (select from ferryman.pmo_batches as batch
              join ferryman.pmo_batch_tasks as task on task.batch_id = batch.id
              where batch.tenant = :tenant
                and batch.parent_agent_id = :agent_id
                and box.id in (task.context_box_id, task.output_box_id))
   or exists (select from ferryman.execution_edges as edge
              join ferryman.agent_inbox as asked on asked.id = edge.target_turn_id
              where edge.tenant = :tenant
                and edge.source_turn_id = :turn::uuid
                and edge.primitive = 'enqueue'
                and box.id = asked.output_box_id)
for key share of box
