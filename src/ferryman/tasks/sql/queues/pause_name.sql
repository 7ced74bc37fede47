-- No worker takes tasks of this handler from now on.
insert into ferryman.paused_names (name)
values (:name)
on conflict do nothing
