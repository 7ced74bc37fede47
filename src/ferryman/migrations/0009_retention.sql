-- T20: how far the walk over finished rows is. No index leads to what has been finished for long, because every end would pay
-- for it; ids grow with time, so that the oldest rows lie at one end of the primary key. One place for each domain.

create table ferryman.retention (
    domain text primary key,
    after_id uuid not null default '00000000-0000-0000-0000-000000000000',
    next_at timestamptz not null default '-infinity'
);
insert into ferryman.retention (domain) values ('task');

comment on column ferryman.retention.after_id is 'The walk goes on behind this id.';
comment on column ferryman.retention.next_at is 'Nobody looks before: many watchdogs walk no faster than one.';

-- The smallest id that can have been made at a time (UUID version 7).
create function ferryman.id_at(moment timestamptz) returns uuid
language sql immutable parallel safe as $$
    select rpad(encode(substring(int8send(greatest(0, floor(extract(epoch from moment) * 1000)::bigint)) from 3), 'hex'), 32, '0')::uuid
$$;
