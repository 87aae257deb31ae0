-- The guards, the clock and the checks cost a lone charge more than its rows did: a function with a search path of its own sets
-- and resets it at each call, a clock in SQL is parsed anew for each statement, and so is every check of a table that is
-- written. So the guards name their tables with their schema instead, the clock keeps its plan, and what can be asked by the
-- guards that run anyway is asked there. A running older program notices nothing.

create or replace function ledger_now() returns timestamptz language plpgsql volatile parallel safe as
$$ begin return coalesce((select t.now from public.test_clock t), pg_catalog.clock_timestamp()); end $$;

-- Names of tables are qualified, so that a temporary table of the same name cannot stand in for a real one; functions and operators
-- are never looked up among temporary objects, and nobody but the owner may create others where they would be found.
revoke create on schema public from public;

-- All lines of an entry come with it: their positions are 1 to line_count, so no later line finds a free place, and the
-- last one of them must be there. Together with the guard of lines this refuses an entry with fewer lines than it says. And an
-- entry is whole: a note has its note, a key its content, and only a main entry has a key.
create or replace function entries_have_their_lines() returns trigger language plpgsql as $$
declare
    bad record;
begin
    select e.account_id, e.seq into bad from added e
    -- Looked up one by one, whatever the planner thinks of the tables' sizes.
    left join lateral (
        select l.position from public.lines l where l.account_id = e.account_id and l.seq = e.seq and l.position = e.line_count limit 1
    ) last_line on true
    where (e.line_count > 0 and last_line.position is null)
        or (e.kind = 13) <> (e.note is not null) or (e.key is null) <> (e.content is null) or (e.key is not null and not e.is_main)
    limit 1;
    if found then
        raise exception 'entry % of account % lacks lines, or is not whole', bad.seq, bad.account_id using errcode = 'DB002';
    end if;
    return null;
end $$;
alter function entries_have_their_lines() reset all;

-- The lines of each entry balance and are as many as it says; each is above 0, and those of the customer's own accounts, and only
-- those, carry the balance after them.
create or replace function lines_balance() returns trigger language plpgsql as $$
declare
    bad record;
begin
    select s.account_id, s.seq into bad
    from (
        select account_id, seq, pg_catalog.count(*) as many, pg_catalog.min(position) as first, pg_catalog.max(position) as last,
            pg_catalog.sum(case when direction = 1 then amount else -amount end) as rest,
            pg_catalog.bool_and(amount > 0 and (ledger_account <= 2) = (balance_after is not null)) as whole
        from added group by account_id, seq
    ) s
    left join public.entries e on e.account_id = s.account_id and e.seq = s.seq
    where e.seq is null or s.many <> e.line_count or s.first <> 1 or s.last <> e.line_count or s.rest <> 0 or not s.whole
    limit 1;
    if found then
        raise exception 'the lines of entry % of account % do not balance or are not as many as it says', bad.seq, bad.account_id
            using errcode = 'DB002';
    end if;
    return null;
end $$;
alter function lines_balance() reset all;

alter table entries drop constraint entries_whole;
alter table lines drop constraint lines_whole;

-- One check of a grant instead of two.
alter table grants drop constraint grants_within;
alter table grants drop constraint grants_given_back;
alter table grants add constraint grants_within check (
    remaining between 0 and amount and reserved >= 0
    and lapse_taken <= lapsed and restored <= clawed_back and given_back_for_debt <= paid_to_debt
) not valid;
alter table grants validate constraint grants_within;
