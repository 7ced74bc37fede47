select tenant, agent_id, status, active_agent_turn_id
from ferryman.agent_state_head
where (status = 'idle') <> (num_nonnulls(active_agent_turn_id, output_box_id, turn_deadline) = 0)
   or (status <> 'idle') <> (num_nonnulls(active_agent_turn_id, output_box_id, turn_deadline) = 3)
