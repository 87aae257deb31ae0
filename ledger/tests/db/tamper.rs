//! What somebody writes into the rows beside the journal, past all guards, is named by verify: column by column.

use ledger::command::{Expiry, ReasonCode, ReverseOutcome, Verb};
use ledger::grant::Pool;
use ledger::ids::{AccountId, GrantId};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use uuid::Uuid;

use crate::support::{Bench, command, credits, instant};

/// Columns that the journal does not hold, as the module docs of `verify` say.
const NOT_IN_THE_JOURNAL: [(&str, &str); 3] =
    [("grants", "rolling"), ("holds", "lifetime_s"), ("accounts", "created_at")];

async fn post(bench: &Bench, account: AccountId, verb: Verb) {
    bench.ledger.submit(command(account, &Uuid::new_v4().to_string(), verb)).await.unwrap();
}

fn adjust(amount: &str, code: ReasonCode) -> Verb {
    let id = GrantId(Uuid::new_v4());
    Verb::Adjust { id, amount: credits(amount), code, pool: None, expires: Expiry::Policy }
}

/// Grants and holds of every kind and state. No tally is 0 in all of them.
async fn account(bench: &Bench) -> AccountId {
    bench.clock("2026-01-01T00:00:00Z").await;
    let account = bench.funded("0").await;
    let grant = async |amount: &str, pool, expires| bench.grant(account, amount, pool, expires).await;
    grant("5", Pool::Trial, Expiry::At(instant("2026-01-03T00:00:00Z"))).await;
    let ending = grant("50", Pool::Paid, Expiry::At(instant("2026-01-03T00:00:00Z"))).await;
    grant("100", Pool::Paid, Expiry::Policy).await;
    bench.clock("2026-01-02T00:00:00Z").await;
    grant("20", Pool::Paid, Expiry::Policy).await;
    let promo = grant("30", Pool::Promo, Expiry::Never).await;
    post(bench, account, Verb::Void { grant: promo }).await;
    bench.clock("2026-01-03T00:00:00Z").await;
    post(bench, account, Verb::Clawback { grant: ending, amount: credits("40"), payment_ref: None }).await;
    post(bench, account, Verb::Restore { grant: ending, amount: credits("10"), payment_ref: None }).await;
    let settled = bench.hold(account, "a", "9", None).await.unwrap();
    bench.settle(account, "a settle", settled, "4").await.unwrap();
    let released = bench.hold(account, "b", "8", None).await.unwrap();
    post(bench, account, Verb::Release { hold: released }).await;
    let lost = bench.hold(account, "c", "7", None).await.unwrap();
    post(bench, account, Verb::Reverse { hold: lost, outcome: ReverseOutcome::Unknown }).await;
    let late = bench.settle(account, "c settle", lost, "300").await.unwrap();
    post(bench, account, adjust("11", ReasonCode::WriteOff)).await;
    bench.grant(account, "400", Pool::Paid, Expiry::Never).await;
    let seq = late.set.main().unwrap().seq;
    post(bench, account, Verb::Refund { seq, amount: Some(credits("290")) }).await;
    bench.hold(account, "d", "6", Some(60)).await.unwrap();
    bench.clock("2026-01-03T00:01:00Z").await;
    let open = bench.hold(account, "e", "5", Some(60)).await.unwrap();
    bench.clock("2026-01-03T00:01:30Z").await;
    post(bench, account, Verb::Renew { hold: open, expires_in_s: 600 }).await;
    account
}

async fn tallies_are_not_all_zero(owner: &mut PgConnection) {
    for (table, columns) in [
        ("grants", "lapsed lapse_taken clawed_back restored paid_to_debt given_back_for_debt reserved"),
        ("holds", "settled released reversed"),
        ("accounts", "held"),
    ] {
        for column in columns.split(' ') {
            let sql = format!("select exists (select from {table} where {column} > 0)");
            let some: bool = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *owner).await.unwrap();
            assert!(some, "{table}.{column}");
        }
    }
}

/// Another value of a column, in SQL.
fn other(column: &str, kind: &str) -> String {
    match (column, kind) {
        ("pool", _) => "pool % 3 + 1".to_owned(),
        ("status", _) => "status % 4 + 1".to_owned(),
        ("part_grants", _) => "array_append(part_grants[2:], gen_random_uuid())".to_owned(),
        ("time_zone", _) => "'Europe/Berlin'".to_owned(),
        (_, "_numeric") => format!("array_append({column}[2:], {column}[1] + 1)"),
        (_, "uuid") => "gen_random_uuid()".to_owned(),
        (_, "bool") => format!("not {column}"),
        (_, "text") => format!("coalesce({column}, '') || 'x'"),
        (_, "timestamptz") => {
            format!("coalesce({column} + interval '1 microsecond', '2026-01-01')")
        }
        (_, "bytea") => format!("set_byte({column}, 0, (get_byte({column}, 0) + 1) % 256)"),
        (_, "numeric" | "int2" | "int4" | "int8") => format!("coalesce({column}, 0) + 1"),
        _ => panic!("{column} is {kind}"),
    }
}

async fn run(owner: &mut PgConnection, sql: String) {
    owner.execute(AssertSqlSafe(sql)).await.unwrap();
}

#[tokio::test]
async fn every_column_that_is_tampered_with_is_named() {
    let bench = Bench::start().await;
    let account = account(&bench).await;
    bench.verify().await;
    let mut owner = bench.owner().await;
    tallies_are_not_all_zero(&mut owner).await;
    let mut seen = 0;
    let mut unseen = Vec::new();
    for table in ["accounts", "grants", "holds"] {
        let checks = format!(
            "select conname from pg_constraint where conrelid = '{table}'::regclass and contype = 'c'"
        );
        let checks: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(checks)).fetch_all(&mut owner).await.unwrap();
        for check in checks {
            run(&mut owner, format!("alter table {table} drop constraint {check}")).await;
        }
        run(&mut owner, format!("create table kept_{table} as select * from {table}")).await;
        let columns = sqlx::query(AssertSqlSafe(format!(
            "select column_name::text, udt_name::text from information_schema.columns
            where table_schema = 'public' and table_name = '{table}' and column_name <> 'account_id' order by ordinal_position"
        )))
        .fetch_all(&mut owner)
        .await
        .unwrap();
        let ids: Vec<Uuid> = sqlx::query_scalar(AssertSqlSafe(format!("select id from {table}")))
            .fetch_all(&mut owner)
            .await
            .unwrap();
        for column in columns {
            let (name, kind): (String, String) = (column.get(0), column.get(1));
            if (table, name.as_str()) == ("accounts", "id") {
                continue;
            }
            for id in &ids {
                let set = other(&name, &kind);
                run(&mut owner, format!("update {table} set {name} = {set} where id = '{id}'")).await;
                let report = bench.ledger.verify_account(account).await.unwrap();
                let text = report.problems.iter().map(ToString::to_string).collect::<String>();
                let named = text.contains(&id.to_string()) || name == "id";
                if report.is_clean() {
                    unseen.push((table, name.clone()));
                } else {
                    assert!(named, "{table}.{name} of {id}: {text}");
                    seen += 1;
                }
                run(&mut owner, format!("delete from {table}")).await;
                run(&mut owner, format!("insert into {table} select * from kept_{table}")).await;
            }
        }
    }
    let missed: Vec<_> = unseen
        .iter()
        .filter(|(table, column)| !NOT_IN_THE_JOURNAL.contains(&(table, column.as_str())))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
    // A grant whose end moved with a later top-up cannot say that it does not roll.
    let rolling = unseen.iter().filter(|(_, column)| column == "rolling").count();
    let grants: i64 = sqlx::query_scalar("select count(*) from grants").fetch_one(&mut owner).await.unwrap();
    assert_eq!(i64::try_from(rolling).unwrap(), grants - 1);
    println!("{seen} changes seen");
    bench.verify().await;
    owner.close().await.unwrap();
}

#[tokio::test]
async fn a_row_that_is_missing_or_made_up_is_named() {
    let bench = Bench::start().await;
    let account = account(&bench).await;
    let mut owner = bench.owner().await;
    for table in ["grants", "holds"] {
        run(&mut owner, format!("create table kept_{table} as select * from {table}")).await;
        let made_up = Uuid::new_v4();
        let id: Uuid =
            sqlx::query_scalar(AssertSqlSafe(format!("select id from {table} order by seq limit 1")))
                .fetch_one(&mut owner)
                .await
                .unwrap();
        run(&mut owner, format!("delete from {table} where id = '{id}'")).await;
        let report = bench.ledger.verify_account(account).await.unwrap();
        assert!(report.problems[0].what.contains(&id.to_string()), "{:?}", report.problems);
        run(&mut owner, format!("delete from {table}")).await;
        run(&mut owner, format!("insert into {table} select * from kept_{table}")).await;
        run(&mut owner, format!("update kept_{table} set id = '{made_up}' where id = '{id}'")).await;
        run(&mut owner, format!("insert into {table} select * from kept_{table} on conflict do nothing"))
            .await;
        let report = bench.ledger.verify_account(account).await.unwrap();
        assert!(report.problems[0].what.contains("is stored, and no entry"), "{:?}", report.problems);
        run(&mut owner, format!("delete from {table}")).await;
        run(&mut owner, format!("update kept_{table} set id = '{id}' where id = '{made_up}'")).await;
        run(&mut owner, format!("insert into {table} select * from kept_{table}")).await;
    }
    bench.verify().await;
    owner.close().await.unwrap();
}
