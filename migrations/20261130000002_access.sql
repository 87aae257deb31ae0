-- Who may do what: people who sign in, API keys, sign-in throttling, browser sessions, and what a staff
-- member has adjusted in a day. None of these tables names a journal table by foreign key: the journal is
-- keyed by account and may live on other nodes of a cluster, and people come and go without it.

create table users (
    id uuid primary key,
    -- Lower-cased before it gets here; compared as it is.
    email text not null unique check (email = lower(email) and length(email) between 3 and 254),
    role text not null check (role in ('customer', 'support', 'finance', 'admin')),
    -- A PHC string; argon2id.
    password_hash text not null,
    created_at timestamptz not null,
    disabled_at timestamptz
);

-- Which accounts a customer sees. Staff see accounts by their role and have no rows here.
create table user_accounts (
    user_id uuid not null references users (id) on delete cascade,
    account_id uuid not null,
    primary key (user_id, account_id)
);

create table api_keys (
    -- The part between the underscores of dbk_<id>_<secret>; looked up by, and no secret.
    id text primary key check (id ~ '^[0-9A-Za-z]{8}$'),
    name text not null check (length(name) between 1 and 100),
    owner_id uuid not null references users (id),
    scopes text[] not null,
    -- SHA-256 of the secret part. 256 random bits need no slow hash.
    secret_digest bytea not null check (octet_length(secret_digest) = 32),
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz
);

create index api_keys_by_owner on api_keys (owner_id);

-- Failed sign-ins, counted by e-mail (known or not) and by address. A subject is a digest, so the table
-- lists neither. Instances share it, so an attacker gains nothing by going round between them.
create table sign_in_throttles (
    subject bytea primary key check (octet_length(subject) = 32),
    failures integer not null check (failures >= 0),
    failed_at timestamptz not null,
    blocked_until timestamptz
);

-- Browser sessions. The cookie's id is kept as a digest: who reads this table cannot sign in with it.
create table sessions (
    digest bytea primary key check (octet_length(digest) = 32),
    -- Null until somebody has signed in.
    user_id uuid references users (id) on delete cascade,
    address text,
    data jsonb not null,
    created_at timestamptz not null,
    seen_at timestamptz not null,
    -- The later of the two ends that can be known ahead; the sweep goes by it.
    expires_at timestamptz not null
);

create index sessions_by_user on sessions (user_id) where user_id is not null;
create index sessions_by_end on sessions (expires_at);

-- What a staff member adjusted, by day: the daily sum over all accounts is checked here, under a lock on the
-- member's row, before the ledger is asked. One row an idempotency key, so a retry does not count twice.
create table adjustment_uses (
    user_id uuid not null references users (id),
    account_id uuid not null,
    key_digest bytea not null check (octet_length(key_digest) = 32),
    day date not null,
    amount numeric(20, 6) not null check (amount >= 0),
    primary key (user_id, account_id, key_digest)
);

create index adjustment_uses_by_day on adjustment_uses (user_id, day);

grant select, insert, update, delete on users, user_accounts, api_keys, sign_in_throttles, sessions, adjustment_uses to daybook_app;
