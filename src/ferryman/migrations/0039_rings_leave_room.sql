-- A notification for which the server's queue has no room ends the transaction that made it, at its commit. Whoever creates tasks
-- here is not to be refused for a ring (K2): where the queue fills up none is made, and polling finds what was created.
create or replace function ferryman.ring(topic text, hints text[]) returns void
language plpgsql as $$
declare
    home text := (select namespace.nspname from pg_class as class join pg_namespace as namespace on namespace.oid = class.relnamespace
                  where class.oid = 'ferryman.settings'::regclass);
    channel text := home || '_doorbell';
    payload text := json_build_array('', topic, case when cardinality(hints) <= 64 then hints else '{}'::text[] end)::text;
begin
    if exists (select from ferryman.settings where name = 'ring_within' and value = 'false') then
        return;
    end if;
    if pg_notification_queue_usage() >= 0.5 then
        return;
    end if;
    if octet_length(channel) > 63 then
        channel := 'doorbell_' || left(encode(sha256(convert_to(home, 'UTF8')), 'hex'), 32);
    end if;
    if octet_length(payload) > 7999 then
        payload := json_build_array('', topic, '{}'::text[])::text;
    end if;
    perform pg_notify(channel, payload);
end
$$;
