select id, attempt, max_retries
from ferryman.tasks
where attempt < 1
   or attempt > 1 + max_retries
