-- Repairs the sequence of one table; nulls while another session repairs.
select repaired.previous_id, repaired.current_id, repaired.moved
from ferryman.repair_sequence(:table_name) as repaired
