-- Where the parcels go: a table of the user's own.
create table ferryman.parcels (id bigint primary key, weight integer not null, posted timestamptz not null)
