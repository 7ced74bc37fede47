-- Workers take tasks of this handler again.
delete from ferryman.paused_names as paused
where paused.name = :name
returning paused.name
