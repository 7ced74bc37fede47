-- Who serves this statement: behind a pooler in transaction mode, not always the same.
select pg_backend_pid() as pid
