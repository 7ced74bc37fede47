-- The coming days of the log.
select name from ferryman.ensure_partitions(:ahead) as name
