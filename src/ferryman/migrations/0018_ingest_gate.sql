-- I9: how fast a source may be asked, by all executors together. One row is one gate. It has no tenant: the limit is that of
-- the other side, which knows a credential and nobody's tenants.

create table ferryman.ingest_gate (
    source text not null,
    endpoint text not null,
    credential text not null default '',
    top double precision not null,
    floor double precision not null,
    burst integer not null,
    rate double precision not null,
    halvings bigint not null default 0,
    spent_until timestamptz not null default to_timestamp(0),
    closed_until timestamptz not null default to_timestamp(0),
    quota_left bigint,
    quota_until timestamptz,
    good bigint not null default 0,
    slow bigint not null default 0,
    last_status integer,
    halved_at timestamptz,
    created_at timestamptz not null default ferryman.clock(),
    updated_at timestamptz not null default ferryman.clock(),
    primary key (source, endpoint, credential),
    constraint ingest_gate_floor check (floor > 0 and floor <= top),
    constraint ingest_gate_rate check (rate between floor and top),
    constraint ingest_gate_burst check (burst > 0),
    constraint ingest_gate_quota check ((quota_left is null) = (quota_until is null) and quota_left >= 0)
) with (fillfactor = 50);

comment on table ferryman.ingest_gate is 'How fast a source may be asked: one rate for each endpoint and credential.';
comment on column ferryman.ingest_gate.top is 'Requests per second at best: what was agreed. The rate climbs back to it.';
comment on column ferryman.ingest_gate.floor is 'Requests per second at worst: however often it is halved.';
comment on column ferryman.ingest_gate.rate is 'Requests per second in force.';
comment on column ferryman.ingest_gate.halvings is 'How often the rate was halved. A request halves it once: what was in flight before does not count.';
comment on column ferryman.ingest_gate.spent_until is 'The time up to which slots are leased.';
comment on column ferryman.ingest_gate.closed_until is 'Nobody may ask before: the source has said so.';
comment on column ferryman.ingest_gate.quota_left is 'What the source said is left until quota_until, less what was leased since.';
