-- I6, P12: a page of which the table has no record yet is inserted as it is; any other is written by the statement for all cases.
-- Each of the three is prepared once for each connection, as in 0035: under a name made of their text, noted in a setting of the
-- session. The look has a snapshot of its own. Whoever writes the same record between it and the insert makes the insert fail by
-- the unique key of the table, and the page with it.

-- What statements made for a table hang on: the types of its columns, and the indexes that keep its keys unique.
create function ferryman.table_shape(named text) returns text
language plpgsql stable as $$
declare
    of_it oid := to_regclass(named);
begin
    return concat(
        array(
            select concat_ws(' ', attname, atttypid, atttypmod)
            from pg_attribute
            where attrelid = of_it and attnum > 0 and not attisdropped
            order by attnum),
        array(
            select indexrelid
            from pg_index
            where indrelid = of_it and indisunique and indisvalid and indimmediate
            order by indexrelid));
end
$$;

create function ferryman.write_page(look text, fresh text, statement text, page text, named text, shape text) returns bigint
language plpgsql as $$
declare
    called text := 'ferryman_page_' || md5(concat(look, fresh, statement));
    noted text := 'ferryman_pages.' || called;
    part record;
    rows bigint;
begin
    if look is null then
        rows := ferryman.write_page(statement, page);
    else
        if current_setting(noted, true) is distinct from 'prepared' then
            for part in
                select called || each.name as name, each.statement
                from (values ('_look', look), ('_fresh', fresh), ('_known', statement)) as each (name, statement)
                where not exists (select from pg_prepared_statements as there where there.name = called || each.name)
            loop
                execute format('prepare %I (text) as %s', part.name, part.statement);
            end loop;
            perform set_config(noted, 'prepared', false);
        end if;
        perform set_config('ferryman_pages.page', page, true);
        execute format('execute %I (current_setting(%L))', called || '_look', 'ferryman_pages.page') into rows;
        execute format('execute %I (current_setting(%L))', called || case when rows > 0 then '_known' else '_fresh' end, 'ferryman_pages.page')
            into rows;
    end if;
    -- Compared when it is written: since then the table is locked, and keeps its shape until the end of the transaction.
    if shape is not null and shape is distinct from ferryman.table_shape(named) then
        raise exception using
            errcode = 'invalid_table_definition',
            message = format('%s has changed since it was looked at', named),
            hint = 'The page is written in another way, and the table looked at again.';
    end if;
    return rows;
end
$$;
