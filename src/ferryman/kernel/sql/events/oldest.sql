-- Where the log begins, since days of it were dropped.
select min(event.id) as id
from ferryman.events as event
