//! The guards of the journal, tried with hand-written SQL as the application's role and as the owner of the tables.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::support::Bench;

/// Two connections: the role of the application, and the owner.
async fn roles(bench: &Bench) -> [(&'static str, PgConnection); 2] {
    let owner = bench.owner().await;
    let mut app = bench.owner().await;
    app.execute(AssertSqlSafe(format!("set role {}", ledger::APP_ROLE))).await.unwrap();
    [("application", app), ("owner", owner)]
}

/// Runs the statement in a transaction of its own and answers with the database's error code and message.
async fn refused(connection: &mut PgConnection, sql: &str) -> (String, String) {
    let mut transaction = connection.begin().await.unwrap();
    let outcome = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *transaction).await;
    let outcome = match outcome {
        Ok(_) => transaction.commit().await,
        Err(error) => {
            transaction.rollback().await.unwrap();
            Err(error)
        }
    };
    let error = outcome.expect_err(sql);
    let error = error.as_database_error().expect("the database itself refuses");
    (error.code().unwrap_or_default().into_owned(), error.message().to_owned())
}

/// The columns that an entry needs, for account `a`, with a number and a count of lines.
fn entry_sql(account: &str, seq: i64, line_count: i16) -> String {
    format!(
        "insert into entries (account_id, seq, kind, set_seq, set_length, is_main, line_count, amount, moved, available_after, held_after,
            debt_after, amount_total, moved_total, occurred_at, recorded_at, effective_at, actor_kind, actor_id, hash)
        values ('{account}', {seq}, 2, {seq}, 1, true, {line_count}, -1, 0, 9, 0, 0, -1, 0, now(), now(), now(), 3, 'by hand',
            decode(repeat('00', 32), 'hex'))"
    )
}

fn line_sql(
    account: &str,
    seq: i64,
    position: i16,
    ledger_account: i16,
    direction: i16,
    amount: &str,
) -> String {
    let balance = if ledger_account <= 2 { "9" } else { "null" };
    format!(
        "insert into lines (account_id, seq, position, ledger_account, direction, amount, debt_mark, balance_after)
        values ('{account}', {seq}, {position}, {ledger_account}, {direction}, {amount}, 0, {balance})"
    )
}

/// One statement with writing CTEs, as the store does it.
fn together(parts: &[String]) -> String {
    let ctes: Vec<String> =
        parts.iter().enumerate().map(|(place, part)| format!("p{place} as ({part})")).collect();
    format!("with {} select 1", ctes.join(", "))
}

#[tokio::test]
async fn the_journal_takes_no_edit_delete_or_truncate() {
    let bench = Bench::start().await;
    let account = bench.funded("10").await;
    for (who, mut connection) in roles(&bench).await {
        for table in ["entries", "lines"] {
            let column = if table == "entries" { "actor_id = 'me'" } else { "amount = amount + 1" };
            for sql in [
                format!("update {table} set {column} where account_id = '{account}'"),
                format!("delete from {table} where account_id = '{account}'"),
                format!("truncate {table}"),
            ] {
                let (code, message) = refused(&mut connection, &sql).await;
                // The application's role has no right to any of it; the triggers hold for the owner.
                assert_eq!(
                    code,
                    if who == "application" { "42501" } else { "DB001" },
                    "{who}: {sql}: {message}"
                );
            }
        }
    }
    bench.verify().await;
}

#[tokio::test]
async fn an_entry_comes_with_all_its_lines_in_one_statement_and_balances() {
    let bench = Bench::start().await;
    let account = bench.funded("10").await.to_string();
    let good =
        [entry_sql(&account, 3, 2), line_sql(&account, 3, 1, 1, 1, "1"), line_sql(&account, 3, 2, 5, 2, "1")];
    let cases = [
        (
            "an unbalanced pair",
            together(&[good[0].clone(), good[1].clone(), line_sql(&account, 3, 2, 5, 2, "2")]),
        ),
        (
            "a pair added to an old entry",
            together(&[line_sql(&account, 2, 3, 1, 1, "1"), line_sql(&account, 2, 4, 5, 2, "1")]),
        ),
        (
            "an entry with fewer lines than it says",
            together(&[entry_sql(&account, 3, 3), good[1].clone(), good[2].clone()]),
        ),
        ("an entry with none of the lines it says", entry_sql(&account, 3, 2)),
        (
            "lines without an entry",
            together(&[line_sql(&account, 9, 1, 1, 1, "1"), line_sql(&account, 9, 2, 5, 2, "1")]),
        ),
        (
            "more lines than the entry says",
            together(&[
                entry_sql(&account, 3, 2),
                good[1].clone(),
                good[2].clone(),
                line_sql(&account, 3, 3, 1, 1, "1"),
                line_sql(&account, 3, 4, 5, 2, "1"),
            ]),
        ),
        (
            "the entry first, its lines in a later statement",
            format!("{}; {}; {}", entry_sql(&account, 3, 2), good[1], good[2]),
        ),
    ];
    for (who, mut connection) in roles(&bench).await {
        for (what, sql) in &cases {
            let (code, message) = refused(&mut connection, sql).await;
            assert_eq!(code, "DB002", "{who}: {what}: {message}");
        }
        // The same road is open to what is right, so the refusals above are not for some other reason.
        let mut transaction = connection.begin().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(together(&good))).execute(&mut *transaction).await.unwrap();
        transaction.rollback().await.unwrap();
    }
    bench.verify().await;
}

#[tokio::test]
async fn the_purge_is_the_one_door_and_opens_for_one_account() {
    let bench = Bench::start().await;
    let account = bench.funded("10").await;
    let other = bench.funded("20").await;
    let permit = |of: &str| {
        format!(
            "insert into purges (account_id, who, why, purged_at, last_seq, last_hash, sums)
            values ('{of}', 'me', 'trial', now(), 2, '\\x00', '[]')"
        )
    };
    let delete = format!(
        "delete from lines where account_id = '{account}'; delete from entries where account_id = '{account}'"
    );
    let cases = [
        ("the setting without a purge row", format!("set local daybook.purge = '{account}'; {delete}")),
        ("a purge row without the setting", format!("{}; {delete}", permit(&account.to_string()))),
        (
            "setting and purge row of another account",
            format!("set local daybook.purge = '{other}'; {}; {delete}", permit(&other.to_string())),
        ),
    ];
    for (who, mut connection) in roles(&bench).await {
        for (what, sql) in &cases {
            let (code, message) = refused(&mut connection, sql).await;
            assert_eq!(
                code,
                if who == "application" { "42501" } else { "DB001" },
                "{who}: {what}: {message}"
            );
        }
    }
    // A purge row of an earlier transaction opens nothing either.
    let mut owner = bench.owner().await;
    owner.execute(AssertSqlSafe(permit(&account.to_string()))).await.unwrap();
    let (code, _) = refused(&mut owner, &format!("set local daybook.purge = '{account}'; {delete}")).await;
    assert_eq!(code, "DB001");
    owner.execute("delete from purges").await.unwrap();

    assert_eq!(bench.ledger.purge(account, "ops", "asked to").await.unwrap(), Some(ledger::ids::Seq(2)));
    assert!(bench.ledger.account(account).await.unwrap().is_none());
    let tombstone: (i64, serde_json::Value) =
        sqlx::query_as("select last_seq, sums from purges where account_id = $1")
            .bind(account.0)
            .fetch_one(&bench.pool)
            .await
            .unwrap();
    assert_eq!(tombstone.0, 2);
    // Ten paid credits came in: prepaid_liability (3) was debited, available (1) credited; the pool is paid (3).
    let sums = tombstone.1.as_array().unwrap();
    assert_eq!(sums.len(), 2);
    let of = |ledger_account: i64| sums.iter().find(|sum| sum["ledger_account"] == ledger_account).unwrap();
    assert_eq!(of(3)["debit"], "10.000000");
    assert_eq!((of(1)["credit"].as_str(), of(1)["pool"].as_i64()), (Some("10.000000"), Some(3)));
    assert_eq!(bench.figures(other).await.0, "20");
    bench.verify().await;
}

#[tokio::test]
async fn the_application_owns_nothing() {
    let bench = Bench::start().await;
    let owned: i64 = sqlx::query_scalar(
        "select count(*) from pg_class c join pg_roles r on r.oid = c.relowner where r.rolname = $1",
    )
    .bind(ledger::APP_ROLE)
    .fetch_one(&bench.pool)
    .await
    .unwrap();
    assert_eq!(owned, 0);
    let current: String =
        sqlx::query_scalar("select current_user::text").fetch_one(&bench.pool).await.unwrap();
    assert_eq!(current, ledger::APP_ROLE);
    let mut app = bench.pool.acquire().await.unwrap();
    for sql in ["drop table lines", "alter table entries disable trigger all", "create table mine (id int)"] {
        let error = sqlx::raw_sql(sql).execute(&mut *app).await.expect_err(sql);
        assert_eq!(error.as_database_error().unwrap().code().unwrap(), "42501", "{sql}");
    }
}

#[tokio::test]
async fn verify_names_the_row_that_was_changed_behind_the_guards() {
    let bench = Bench::start().await;
    let account = bench.funded("10").await;
    bench.charge(account, "one", "1").await.unwrap();
    bench.charge(account, "two", "2").await.unwrap();
    let cases = [
        ("update entries set actor_id = 'somebody else' where seq = 3", Some(3), "the hash does not follow"),
        ("update entries set amount = -5 where seq = 3", Some(3), "the hash does not follow"),
        ("update lines set amount = 5 where seq = 4", Some(4), "the hash does not follow"),
        ("delete from lines where seq = 3; delete from entries where seq = 3", Some(4), "follows entry 2"),
        (
            "delete from lines where seq = 4; delete from entries where seq = 4",
            None,
            "the account's row says Seq(4) in seq",
        ),
        (
            "update accounts set available = available + 0.000001",
            None,
            "the account's row says 7.000001 in available",
        ),
        ("update grants set remaining = remaining - 0.000001", None, "says 6.999999 in remaining"),
    ];
    for (sql, seq, what) in cases {
        let mut owner = bench.owner().await;
        let saved = ["entries", "lines", "accounts", "grants"];
        owner.execute("set session_replication_role = replica").await.unwrap();
        for table in saved {
            owner
                .execute(AssertSqlSafe(format!("create temp table saved_{table} as select * from {table}")))
                .await
                .unwrap();
        }
        sqlx::raw_sql(sql).execute(&mut owner).await.unwrap();
        let report = bench.ledger.verify(|_| {}).await.unwrap();
        assert_eq!(report.problems.len(), 1, "{sql}");
        let problem = &report.problems[0];
        assert_eq!((problem.account, problem.seq.map(|seq| seq.0)), (account, seq), "{sql}: {problem}");
        assert!(problem.what.contains(what), "{sql}: {problem}");
        for table in saved {
            // Generated columns cannot be inserted, so the rows are put back by what the others say.
            let columns: Vec<String> = sqlx::query_scalar(
                "select column_name::text from information_schema.columns where table_name = $1 and table_schema = 'public' and is_generated = 'NEVER' order by ordinal_position",
            )
            .bind(table)
            .fetch_all(&mut owner)
            .await
            .unwrap();
            let columns = columns.join(", ");
            let back = format!(
                "delete from {table}; insert into {table} ({columns}) select {columns} from saved_{table}; drop table saved_{table}"
            );
            sqlx::raw_sql(AssertSqlSafe(back)).execute(&mut owner).await.unwrap();
        }
    }
    bench.verify().await;
}

#[tokio::test]
async fn a_temporary_table_cannot_stand_in_for_a_guards_table() {
    let bench = Bench::start().await;
    let account = bench.funded("10").await;
    let forged_purge = format!(
        "create temp table purges (account_id uuid, txid xid8); insert into purges values ('{account}', pg_current_xact_id());
        set local daybook.purge = '{account}'; delete from public.lines where account_id = '{account}'"
    );
    let id = account.to_string();
    let forged_lines = format!(
        "create temp table lines (account_id uuid, seq bigint, position smallint); insert into lines values ('{id}', 3, 2);
        {}",
        entry_sql(&id, 3, 2).replace("into entries", "into public.entries")
    );
    let forged_entries = format!(
        "create temp table entries (account_id uuid, seq bigint, line_count smallint); insert into entries values ('{id}', 9, 2);
        {}",
        together(&[line_sql(&id, 9, 1, 1, 1, "1"), line_sql(&id, 9, 2, 5, 2, "1")]).replace("into lines", "into public.lines")
    );
    for (who, mut connection) in roles(&bench).await {
        let purge = if who == "application" { "42501" } else { "DB001" };
        for (sql, expected) in [(&forged_purge, purge), (&forged_lines, "DB002"), (&forged_entries, "DB002")]
        {
            let (code, message) = refused(&mut connection, sql).await;
            assert_eq!(code, expected, "{who}: {sql}: {message}");
        }
    }
    bench.verify().await;
}

#[tokio::test]
async fn verify_sees_an_account_that_is_gone_and_lines_that_nobody_owns() {
    let bench = Bench::start().await;
    let gone = bench.funded("10").await;
    let lines = bench.funded("20").await;
    let mut owner = bench.owner().await;
    owner.execute("set session_replication_role = replica").await.unwrap();
    sqlx::query("delete from accounts where id = $1").bind(gone.0).execute(&mut owner).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(line_sql(&lines.to_string(), 9, 1, 1, 1, "1")))
        .execute(&mut owner)
        .await
        .unwrap();
    sqlx::query("update entries set set_length = 2 where account_id = $1 and seq = 2")
        .bind(lines.0)
        .execute(&mut owner)
        .await
        .unwrap();
    let report = bench.ledger.verify(|_| {}).await.unwrap();
    let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    for (account, what) in [
        (gone, "has entries and neither an account nor a tombstone"),
        (lines, "entry 9: has lines and no entry"),
        (lines, "entry 2: says that its set has 2 entries, and it has 1"),
    ] {
        assert!(
            found.iter().any(|text| text.contains(&account.to_string()) && text.contains(what)),
            "{what}: {found:?}"
        );
    }
}
