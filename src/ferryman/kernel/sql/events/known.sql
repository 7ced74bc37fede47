-- Whether the log has this event. By its time too, so that only one partition is read.
select exists (select from ferryman.events where id = :id and logged_at = :logged_at) as known
