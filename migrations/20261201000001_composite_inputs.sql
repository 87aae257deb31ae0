-- A round hands its rows to the database as one array of a composite type for each table, instead of one array for each of
-- seventy columns: that many function scans cost more than the rows themselves in a small round. And an account keeps running
-- totals only of the kinds it has: thirteen of each were rewritten with every charge, though most accounts know three kinds.
--
-- The types are what a program sends, not what a table has. A table that gets a column gets a new type beside the old one,
-- so that a running older program goes on. This one migration is the exception: a program from before it reads totals that are
-- not there any more, and is refused with an error, before it has written anything. Stop older servers first.

create type entry_input as (
    account_id uuid,
    seq bigint,
    kind smallint,
    note smallint,
    set_seq bigint,
    set_length integer,
    is_main boolean,
    line_count smallint,
    amount numeric(30, 6),
    moved numeric(30, 6),
    available_after numeric(30, 6),
    held_after numeric(30, 6),
    debt_after numeric(30, 6),
    amount_total numeric(30, 6),
    moved_total numeric(30, 6),
    occurred_at timestamptz,
    recorded_at timestamptz,
    effective_at timestamptz,
    actor_kind smallint,
    actor_id text,
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
    hash bytea
);

create type line_input as (
    account_id uuid,
    seq bigint,
    position smallint,
    ledger_account smallint,
    direction smallint,
    amount numeric(30, 6),
    grant_id uuid,
    debt_mark smallint,
    balance_after numeric(30, 6)
);

create type head_input as (
    id uuid,
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

create type grant_input as (
    account_id uuid,
    id uuid,
    seq bigint,
    pool smallint,
    amount numeric(20, 6),
    remaining numeric(20, 6),
    reserved numeric(20, 6),
    expires_at timestamptz,
    rolling boolean,
    voided_at timestamptz,
    source text,
    granted_at timestamptz,
    lapsed numeric(30, 6),
    lapse_taken numeric(30, 6),
    clawed_back numeric(30, 6),
    restored numeric(30, 6),
    paid_to_debt numeric(30, 6),
    given_back_for_debt numeric(30, 6)
);

create type grant_change_input as (
    account_id uuid,
    id uuid,
    seq bigint,
    remaining numeric(20, 6),
    reserved numeric(20, 6),
    expires_at timestamptz,
    voided_at timestamptz,
    lapsed numeric(30, 6),
    lapse_taken numeric(30, 6),
    clawed_back numeric(30, 6),
    restored numeric(30, 6),
    paid_to_debt numeric(30, 6),
    given_back_for_debt numeric(30, 6)
);

create type hold_input as (
    account_id uuid,
    id uuid,
    seq bigint,
    amount numeric(20, 6),
    status smallint,
    part_grants uuid[],
    part_amounts numeric(20, 6)[],
    placed_at timestamptz,
    lifetime_s integer,
    renewed_at timestamptz,
    expires_at timestamptz,
    settled numeric(20, 6),
    released numeric(20, 6),
    reversed numeric(20, 6),
    needs_review boolean,
    ended_by bigint,
    late_settle bigint,
    member text,
    job_id text,
    request_ref text,
    model text,
    key_ref text
);

-- Three numbers for each kind that moved something: its number, the total of amount, the total of moved.
alter table accounts add column totals numeric(30, 6)[] not null default '{}';
update accounts a set totals = coalesce((
    select array_agg(part.value order by t.kind, part.place)
    from unnest(a.amount_totals, a.moved_totals) with ordinality as t(amount, moved, kind)
    cross join lateral (values (1, t.kind::numeric), (2, t.amount), (3, t.moved)) as part(place, value)
    where t.amount <> 0 or t.moved <> 0
), '{}');
alter table accounts drop column amount_totals, drop column moved_totals;
