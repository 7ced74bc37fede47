-- Which handlers are paused, and since when.
select paused.name, paused.paused_at
from ferryman.paused_names as paused
order by paused.name
