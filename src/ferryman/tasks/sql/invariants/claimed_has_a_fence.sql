select id, epoch, lease_count, started_at
from ferryman.tasks
where leased_until is not null
  and (started_at is null or epoch < 1 or lease_count < epoch)
