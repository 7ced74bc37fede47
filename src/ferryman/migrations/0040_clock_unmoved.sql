-- K14: all SQL asks this one function for the time, each statement at least once. The shift that tests move cost a look at a
-- table each time, a twentieth of what a lonely create or claim costs the store. A database whose time was never moved does not
-- look: whoever moves it for the first time gives it the function that does. Every plan asks the function by its name, and the
-- next statement of every session has the new one.
create or replace function ferryman.clock() returns timestamptz
language plpgsql stable parallel safe as $$
begin
    return clock_timestamp();
end
$$;

-- By whoever may write the shift and owns the function; the row that is written lets two who come first take turns.
create function ferryman.read_shift() returns trigger
language plpgsql as $$
begin
    if (select prosrc not like '%clock_shift%' from pg_proc where oid = 'ferryman.clock()'::regprocedure) then
        create or replace function ferryman.clock() returns timestamptz
        language plpgsql stable parallel safe as $clock$
        begin
            return clock_timestamp() + (select shift from ferryman.clock_shift);
        end
        $clock$;
    end if;
    return null;
end
$$;

create trigger clock_shift_read
after update on ferryman.clock_shift
for each row
when (new.shift <> '0')
execute function ferryman.read_shift();

-- It is no guard: it acts also in a session that has put guards aside.
alter table ferryman.clock_shift enable always trigger clock_shift_read;

-- One that was moved before goes on being read.
update ferryman.clock_shift set shift = shift;
