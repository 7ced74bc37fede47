-- I5, I6: a page is written inside the statement that ends its batch, before the claim is compared. As a statement within a
-- statement, so that the triggers and foreign keys of its table are done with when the task is locked: a table may be slow.
-- The statement is that of the sink, and runs with the rights of whoever calls.

create function ferryman.write_page(statement text, page text) returns bigint
language plpgsql as $$
declare
    rows bigint;
begin
    execute statement into rows using page;
    return rows;
end
$$;

-- What was written under a stale claim is taken back by an error: a statement has no other way to undo what it did.
create function ferryman.refuse_stale_page(batch uuid) returns boolean
language plpgsql as $$
begin
    raise exception using
        errcode = 'FM020',
        message = 'INGEST_LEASE_LOST',
        detail = jsonb_build_object('id', batch)::text,
        hint = 'The page was fetched for a claim that is not held any more; whoever holds the task fetches it again.';
end
$$;
