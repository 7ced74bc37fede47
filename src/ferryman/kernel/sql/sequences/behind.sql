-- Sequences that would give out ids which are in use or which readers have passed.
select sequence.table_name, sequence.last_id, sequence.needed_id
from ferryman.sequences as sequence
where sequence.last_id < sequence.needed_id
order by sequence.table_name
limit :limit
