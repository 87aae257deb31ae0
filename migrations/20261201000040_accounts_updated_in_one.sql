-- A round that was decided on what is remembered locked its accounts and then updated them: two descents of the index and two
-- records of the log for each. The update alone does both, if it finds an account only where its last entry is still the remembered
-- one, and if a round that found too few is undone. A running older program notices nothing.

create type head_change_input as (
    id uuid,
    seq_before bigint,
    status smallint,
    policy text,
    erased boolean,
    seq bigint,
    hash bytea,
    available numeric(30, 6),
    held numeric(30, 6),
    debt numeric(30, 6),
    written_off numeric(30, 6),
    recorded_at timestamptz,
    effective_at timestamptz,
    totals numeric(30, 6)[]
);

-- Undoes the statement that found fewer accounts than it asked for.
create function require_accounts(changed bigint, asked integer) returns boolean language plpgsql parallel safe as $$
begin
    if changed <> asked then
        raise exception 'of % accounts, % are as they were', asked, changed using errcode = 'DB003';
    end if;
    return true;
end $$;
