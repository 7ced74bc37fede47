-- Keys reach every way in (T17): firings take them from their schedule, and `create_tasks` (K16) takes them like the door.

alter table ferryman.schedules
    add column limit_key text,
    add column singleton text,
    add column debounce text,
    add column quiet interval,
    add constraint schedules_quiet_whole check ((debounce is null) = (quiet is null)) not valid;

alter table ferryman.schedules validate constraint schedules_quiet_whole;

comment on column ferryman.schedules.limit_key is 'The keys of its firings (see tasks), made of its payload when it was written.';
comment on column ferryman.schedules.quiet is 'How long its firings wait for another call with the same debounce.';
