-- The journal: accounts with their heads, grants, holds, and the append-only entries with their lines.
--
-- Why it looks like this:
--  * Every hot table has account_id first in its keys and no foreign key to anything that is not keyed by account, so
--    that one round of commands touches one lane and the schema can be distributed by account.
--  * Entries and lines can be inserted only together, by one statement, and never changed; the triggers below hold for
--    the table owner too. The one door is the purge of a single account.
--  * Entries carry three indexes at most on the hot path: key, idempotency key, and kind by time. Others are partial.

-- The role of every connection but migration's. It owns nothing; see the grants at the end.
do $$
begin
    if not exists (select from pg_roles where rolname = 'daybook_app') then
        create role daybook_app nologin;
    end if;
exception when duplicate_object or unique_violation then
    null; -- Another database of the same cluster was migrated at the same moment.
end $$;

-- A rehearsal instance keeps its instant here; an ordinary one has no row.
create table test_clock (
    singleton boolean primary key default true check (singleton),
    now timestamptz not null
);

-- The one clock of decisions, sweeps and workers.
create function ledger_now() returns timestamptz language sql volatile parallel safe as
$$ select coalesce((select now from public.test_clock), clock_timestamp()) $$;

-- Named sets of rules. Every account points at one.
create table policies (
    name text primary key check (name ~ '^[a-z0-9_-]{1,64}$'),
    rules jsonb not null,
    updated_at timestamptz not null default now()
);

insert into policies (name, rules) values ('default', '{"name": "default", "hold_default_s": 600, "hold_lifetime_s": 3600,
    "overrun": "full", "trial": {"days": 30}, "promo": {"days": 90}, "paid": {"rolling_months": 12}, "multiplier": "1",
    "estimate_factor": "1.2"}');

-- An account and the head of its journal: what its last entry left. The row is what a round locks.
create table accounts (
    id uuid primary key,
    status smallint not null default 1,
    policy text not null,
    time_zone text not null default 'UTC',
    created_at timestamptz not null,
    erased_at timestamptz,
    seq bigint not null default 0,
    hash bytea not null default '\x0000000000000000000000000000000000000000000000000000000000000000',
    available numeric(30, 6) not null default 0,
    held numeric(30, 6) not null default 0,
    debt numeric(30, 6) not null default 0,
    written_off numeric(30, 6) not null default 0,
    recorded_at timestamptz not null default 'epoch',
    effective_at timestamptz not null default 'epoch',
    -- Running totals by kind, in the order of the kinds' numbers.
    amount_totals numeric(30, 6)[] not null default array_fill(0::numeric(30, 6), array[13]),
    moved_totals numeric(30, 6)[] not null default array_fill(0::numeric(30, 6), array[13]),
    constraint accounts_not_negative check (held >= 0 and debt >= 0)
) with (fillfactor = 60);

-- The operator's own customer ids, apart because they are unique over all accounts.
create table account_refs (
    external_ref text primary key,
    account_id uuid not null constraint account_refs_one_each unique
);

-- Names of people; erasure deletes the row.
create table account_profiles (
    account_id uuid primary key,
    name text,
    email text,
    metadata jsonb not null default '{}'
);
create index account_profiles_email on account_profiles (lower(email) text_pattern_ops);
create index account_profiles_name on account_profiles (lower(name) text_pattern_ops);

-- Credits that were put in.
create table grants (
    account_id uuid not null,
    id uuid not null,
    seq bigint not null,
    pool smallint not null,
    amount numeric(20, 6) not null,
    remaining numeric(20, 6) not null,
    reserved numeric(20, 6) not null,
    expires_at timestamptz,
    rolling boolean not null default false,
    voided_at timestamptz,
    source text,
    granted_at timestamptz not null,
    lapsed numeric(30, 6) not null default 0,
    lapse_taken numeric(30, 6) not null default 0,
    clawed_back numeric(30, 6) not null default 0,
    restored numeric(30, 6) not null default 0,
    paid_to_debt numeric(30, 6) not null default 0,
    given_back_for_debt numeric(30, 6) not null default 0,
    -- Has something to spend or to come back from a hold (remaining or reserved above 0); the only grants that most decisions
    -- read. Written with them.
    open boolean not null,
    primary key (account_id, id),
    constraint grants_within check (remaining between 0 and amount and reserved >= 0),
    constraint grants_given_back check (lapse_taken <= lapsed and restored <= clawed_back and given_back_for_debt <= paid_to_debt)
) with (fillfactor = 60);
create index grants_open on grants (account_id) where open;
-- For the sweep.
create index grants_due on grants (expires_at) where open and expires_at is not null;
create index grants_listed on grants (account_id, seq);

-- Pre-authorisations. Status: 1 open, 2 settled, 3 released, 4 reversed, 5 expired.
create table holds (
    account_id uuid not null,
    id uuid not null,
    seq bigint not null,
    amount numeric(20, 6) not null,
    status smallint not null,
    part_grants uuid[] not null,
    part_amounts numeric(20, 6)[] not null,
    placed_at timestamptz not null,
    lifetime_s integer not null,
    renewed_at timestamptz not null,
    expires_at timestamptz not null,
    settled numeric(20, 6) not null,
    released numeric(20, 6) not null,
    reversed numeric(20, 6) not null,
    needs_review boolean not null default false,
    ended_by bigint,
    late_settle bigint,
    member text,
    job_id text,
    request_ref text,
    model text,
    key_ref text,
    primary key (account_id, id),
    constraint holds_lifetime check (expires_at <= renewed_at + lifetime_s * interval '1 second'),
    constraint holds_age check (expires_at <= placed_at + interval '24 hours'),
    constraint holds_sum check (case when status = 1 then settled + released + reversed = 0 else settled + released + reversed = amount end)
) with (fillfactor = 80);
create index holds_open on holds (account_id) where status = 1;
-- For the sweep. Its predicate says more than a round's query does, so that no round is ever planned over all accounts by it.
create index holds_due on holds (expires_at) where status = 1 and expires_at is not null;
create index holds_listed on holds (account_id, seq);

-- One event each. Immutable.
create table entries (
    account_id uuid not null,
    seq bigint not null,
    kind smallint not null,
    note smallint,
    set_seq bigint not null,
    -- How many entries its set has, itself included.
    set_length integer not null,
    is_main boolean not null,
    line_count smallint not null,
    amount numeric(30, 6) not null,
    moved numeric(30, 6) not null,
    available_after numeric(30, 6) not null,
    held_after numeric(30, 6) not null,
    debt_after numeric(30, 6) not null,
    amount_total numeric(30, 6) not null,
    moved_total numeric(30, 6) not null,
    occurred_at timestamptz not null,
    recorded_at timestamptz not null,
    effective_at timestamptz not null,
    actor_kind smallint not null,
    actor_id text not null,
    actor_role text,
    origin smallint,
    key bytea,
    content bytea,
    member text,
    job_id text,
    request_ref text,
    model text,
    key_ref text,
    hold_id uuid,
    reverses bigint,
    use_at timestamptz,
    use_amount numeric(30, 6),
    answer jsonb,
    words_digest bytea,
    hash bytea not null,
    -- For feeds that page by transaction; outside the hash. The epoch is raised by a restore into a new cluster.
    txid xid8 not null default pg_current_xact_id(),
    epoch smallint not null default 1,
    primary key (account_id, seq),
    -- Few and together: the database reads the text of every check anew for each statement.
    constraint entries_whole check ((kind = 13) = (note is not null) and (key is null) = (content is null) and (key is null or is_main))
);
create unique index entries_key on entries (account_id, origin, key) where key is not null;
create index entries_kind_time on entries (account_id, kind, effective_at, seq);
create index entries_job on entries (account_id, job_id, seq) where job_id is not null;
create index entries_request on entries (account_id, request_ref, seq) where request_ref is not null;
create index entries_member on entries (account_id, member, use_at) include (use_amount, seq) where member is not null;
create index entries_key_ref on entries (account_id, key_ref, use_at) include (use_amount, seq) where key_ref is not null;
create index entries_reverses on entries (account_id, reverses) where reverses is not null;

-- Debits and credits. Immutable.
create table lines (
    account_id uuid not null,
    seq bigint not null,
    position smallint not null,
    ledger_account smallint not null,
    direction smallint not null,
    amount numeric(30, 6) not null,
    grant_id uuid,
    debt_mark smallint not null default 0,
    balance_after numeric(30, 6),
    primary key (account_id, seq, position),
    constraint lines_whole check (amount > 0 and position >= 1 and (ledger_account <= 2) = (balance_after is not null))
);
create index lines_debt_payments on lines (account_id, seq) where debt_mark = 2 and grant_id is not null;

-- Free text of an entry; the entry carries its salted digest. Erasure deletes the row. The metadata are kept as they
-- were written, since the digest is of their text.
create table entry_words (
    account_id uuid not null,
    seq bigint not null,
    reason text,
    metadata json,
    salt bytea not null,
    primary key (account_id, seq)
);

-- Where a call came from; kept 30 days.
create table entry_addresses (
    account_id uuid not null,
    seq bigint not null,
    address text not null,
    recorded_at timestamptz not null,
    primary key (account_id, seq)
);
create index entry_addresses_age on entry_addresses using brin (recorded_at);

create table quotas (
    account_id uuid not null,
    subject_kind smallint not null check (subject_kind in (1, 2)),
    subject text not null,
    window_kind smallint not null check (window_kind between 1 and 3),
    amount_max numeric(30, 6) not null check (amount_max >= 0),
    primary key (account_id, subject_kind, subject, window_kind)
);

-- What others want to know of a decision, written with it.
create table outbox (
    account_id uuid not null,
    seq bigint not null,
    signal smallint not null,
    payload jsonb not null,
    created_at timestamptz not null default now(),
    txid xid8 not null default pg_current_xact_id(),
    primary key (account_id, seq, signal)
);

-- The tombstone that a purge leaves, and its permit while it runs.
create table purges (
    account_id uuid primary key,
    who text not null check (who <> ''),
    why text not null check (why <> ''),
    purged_at timestamptz not null,
    txid xid8 not null default pg_current_xact_id(),
    last_seq bigint not null,
    last_hash bytea not null,
    -- Sums by ledger account, pool and UTC day, which reports go on reading.
    sums jsonb not null
);

-- The guards. Their functions look names up in this schema first, so that a temporary table of the same name cannot stand
-- in for a real one.

create function journal_is_append_only() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
    raise exception 'the journal is append-only: % on % is refused', tg_op, tg_table_name using errcode = 'DB001';
end $$;

create trigger entries_no_update before update on entries execute function journal_is_append_only();
create trigger entries_no_truncate before truncate on entries execute function journal_is_append_only();
create trigger lines_no_update before update on lines execute function journal_is_append_only();
create trigger lines_no_truncate before truncate on lines execute function journal_is_append_only();

-- A delete is right only for the account that the transaction-local setting names, with its purge row in the same transaction.
create function journal_purge_only() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
begin
    if exists (
        select from (select distinct account_id from gone) deleted
        where deleted.account_id::text is distinct from nullif(current_setting('daybook.purge', true), '')
           or not exists (select from purges p where p.account_id = deleted.account_id and p.txid = pg_current_xact_id())
    ) then
        raise exception 'the journal is append-only: DELETE on % needs the purge of that account', tg_table_name using errcode = 'DB001';
    end if;
    return null;
end $$;

create trigger entries_purge_only after delete on entries referencing old table as gone
    for each statement execute function journal_purge_only();
create trigger lines_purge_only after delete on lines referencing old table as gone
    for each statement execute function journal_purge_only();

-- All lines of an entry come with it: their positions are 1 to line_count, so no later line finds a free place, and the
-- last one of them must be there. Together with the check on lines this refuses an entry with fewer lines than it says.
create function entries_have_their_lines() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
    bad record;
begin
    select e.account_id, e.seq into bad from added e
    where e.line_count > 0
      and not exists (select from lines l where l.account_id = e.account_id and l.seq = e.seq and l.position = e.line_count)
    limit 1;
    if found then
        raise exception 'entry % of account % lacks lines', bad.seq, bad.account_id using errcode = 'DB002';
    end if;
    return null;
end $$;

create trigger entries_with_lines after insert on entries referencing new table as added
    for each statement execute function entries_have_their_lines();

create function lines_balance() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
    bad record;
begin
    select s.account_id, s.seq into bad
    from (
        select account_id, seq, count(*) as many, max(position) as last,
               sum(case when direction = 1 then amount else -amount end) as rest
        from added group by account_id, seq
    ) s
    left join entries e on e.account_id = s.account_id and e.seq = s.seq
    where e.seq is null or s.many <> e.line_count or s.last <> e.line_count or s.rest <> 0
    limit 1;
    if found then
        raise exception 'the lines of entry % of account % do not balance or are not as many as it says', bad.seq, bad.account_id
            using errcode = 'DB002';
    end if;
    return null;
end $$;

create trigger lines_with_entry after insert on lines referencing new table as added
    for each statement execute function lines_balance();

-- The purge of one account, whole: its tombstone is computed here, and the role that serves requests has no other way to
-- delete a row of the journal. Answers with the last entry's number, or null if there is no such account.
create function purge_account(account uuid, by_whom text, because text) returns bigint
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
    head record;
begin
    select a.seq, a.hash into head from accounts a where a.id = account for update;
    if not found then
        return null;
    end if;
    insert into purges (account_id, who, why, purged_at, last_seq, last_hash, sums)
    select account, by_whom, because, ledger_now(), head.seq, head.hash,
        coalesce(jsonb_agg(jsonb_build_object('ledger_account', s.ledger_account, 'pool', s.pool, 'day', s.day,
            'debit', s.debit::text, 'credit', s.credit::text)), '[]')
    from (
        select l.ledger_account, g.pool, (e.effective_at at time zone 'UTC')::date as day,
            sum(l.amount) filter (where l.direction = 1) as debit, sum(l.amount) filter (where l.direction = 2) as credit
        from lines l
        join entries e on e.account_id = l.account_id and e.seq = l.seq
        left join grants g on g.account_id = l.account_id and g.id = l.grant_id
        where l.account_id = account
        group by 1, 2, 3
    ) s;
    perform set_config('daybook.purge', account::text, true);
    delete from lines l where l.account_id = account;
    delete from entries e where e.account_id = account;
    delete from entry_words w where w.account_id = account;
    delete from entry_addresses d where d.account_id = account;
    delete from outbox o where o.account_id = account;
    delete from holds h where h.account_id = account;
    delete from grants g where g.account_id = account;
    delete from quotas q where q.account_id = account;
    delete from account_refs r where r.account_id = account;
    delete from account_profiles p where p.account_id = account;
    delete from accounts a where a.id = account;
    perform set_config('daybook.purge', '', true);
    return head.seq;
end $$;
revoke execute on function purge_account from public;

-- Takes back accounts that were inserted for openings which were refused; one with an entry stays.
create function unopen_accounts(opened uuid[]) returns void
language sql security definer set search_path = pg_catalog, public, pg_temp as $$
    delete from account_refs r using accounts a where a.id = r.account_id and a.id = any(opened) and a.seq = 0;
    delete from accounts a where a.id = any(opened) and a.seq = 0;
$$;
revoke execute on function unopen_accounts from public;

-- The rights of the role that serves requests. Journal rows are inserted and never deleted; what may be erased are words.
grant usage on schema public to daybook_app;
grant select on policies, test_clock, purges to daybook_app;
grant insert, update on policies to daybook_app;
grant insert, update, delete on test_clock to daybook_app;
grant select, insert, update on accounts, grants, holds to daybook_app;
grant select, insert on entries, lines, outbox to daybook_app;
grant select, insert, update, delete on account_refs, account_profiles, quotas, entry_words, entry_addresses to daybook_app;
grant execute on function purge_account, unopen_accounts to daybook_app;
