-- A worker says that it lives, what it serves and what it knows.
insert into ferryman.workers (boot_id, tenant, host, pid, version, queues, handlers, settings, seen_until)
values (:boot_id, :tenant, :host, :pid, :version, :queues, :handlers, :settings::jsonb, ferryman.clock() + :lease::interval)
on conflict (boot_id) do update
set queues = excluded.queues, handlers = excluded.handlers, settings = excluded.settings, seen_until = excluded.seen_until
returning boot_id
