-- I6, P12: the statement of a sink is planned once for each connection, not for each page.
-- Prepared under a name made of its text, whoever of a pooler's clients did it; the page goes to it as a setting of the
-- transaction, since a page written out in a text would have to be quoted and read again. That it is prepared is noted in a
-- setting of the session, which is cheap to read. The note goes with a transaction that fails and what was prepared stays, so
-- whoever finds no note looks.

create or replace function ferryman.write_page(statement text, page text) returns bigint
language plpgsql as $$
declare
    called text := 'ferryman_page_' || md5(statement);
    noted text := 'ferryman_pages.' || called;
    rows bigint;
begin
    if current_setting(noted, true) is distinct from 'prepared' then
        if not exists (select from pg_prepared_statements as there where there.name = called) then
            execute format('prepare %I (text) as %s', called, statement);
        end if;
        perform set_config(noted, 'prepared', false);
    end if;
    perform set_config('ferryman_pages.page', page, true);
    execute format('execute %I (current_setting(%L))', called, 'ferryman_pages.page') into rows;
    return rows;
end
$$;
