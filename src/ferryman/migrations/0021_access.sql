-- Who may ask over HTTP (S6): tokens, and the sessions of people who signed in with one. Of a secret only its hash is kept.

create table ferryman.access_tokens (
    id uuid primary key,
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    tenant text not null,
    name text not null,
    scopes text[] not null,
    hash bytea not null,
    constraint access_tokens_scopes_known check (
        cardinality(scopes) > 0 and scopes <@ array['read', 'write', 'worker', 'admin']
    ),
    constraint access_tokens_hash_whole check (octet_length(hash) = 32)
);

comment on column ferryman.access_tokens.tenant is 'Whom it serves; * is an operator''s, for all tenants.';
comment on column ferryman.access_tokens.hash is 'SHA-256 of the whole token; the token itself is kept nowhere.';
comment on column ferryman.access_tokens.last_used_at is 'Written once in some minutes at most.';

-- A name is free again when its token is revoked. Also what tells whether there are tokens at all.
create unique index access_tokens_name on ferryman.access_tokens (tenant, name) where revoked_at is null;

create table ferryman.access_sessions (
    hash bytea primary key,
    token_id uuid not null references ferryman.access_tokens,
    created_at timestamptz not null,
    ends_at timestamptz not null,
    constraint access_sessions_hash_whole check (octet_length(hash) = 32),
    constraint access_sessions_ends_at_finite check (isfinite(ends_at))
);

comment on table ferryman.access_sessions is
    'People who signed in. A session ends at ends_at; a row leaves when somebody signs out, when its token is revoked, or some time after its end.';

create index access_sessions_token on ferryman.access_sessions (token_id);
create index access_sessions_ends_at on ferryman.access_sessions (ends_at);
