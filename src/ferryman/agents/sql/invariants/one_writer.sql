select tenant, output_box_id, count(*) as writers
from ferryman.agent_state_head
where output_box_id is not null
group by tenant, output_box_id
having count(*) > 1
