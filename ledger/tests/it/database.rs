//! The whole ledger as a subject: the same histories through the poster and a real Postgres with a test clock.

use chrono::{DateTime, Utc};
use ledger::Credits;
use ledger::account::{AccountStatus, Head, KindTotals};
use ledger::command::{CallFields, Command};
use ledger::grant::{Grant, Pool};
use ledger::hold::{Hold, HoldPart, HoldStatus};
use ledger::ids::{AccountId, GrantId, HoldId, Seq};
use ledger::refusal::Refusal;
use ledger::service::PostError;
use rust_decimal::Decimal;
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::runtime::Runtime;

use crate::generate::{History, generate};
use crate::histories::{Ran, Subject, check};
use crate::invariants::{Snapshot, View};
use crate::model::Instant;
use crate::reach::Reach;
use crate::support::Bench;

struct Database<'a> {
    runtime: &'a Runtime,
    bench: &'a Bench,
    account: AccountId,
    quotas_due: Vec<ledger::quota::Quota>,
}

impl<'a> Database<'a> {
    fn new(runtime: &'a Runtime, bench: &'a Bench, history: &History) -> Database<'a> {
        Database { runtime, bench, account: history.account, quotas_due: history.quotas.clone() }
    }

    /// Histories do not follow each other in time, so the clock is set past its guard against going back.
    async fn set_clock(&self, now: Instant) {
        let sql = "insert into test_clock (now) values ($1) on conflict (singleton) do update set now = excluded.now";
        sqlx::query(sql).bind(now).execute(&self.bench.pool).await.unwrap();
    }

    /// A policy is a row that accounts point at; the histories carry theirs with the command.
    async fn know_policy(&self, command: &Command) {
        use ledger::command::Verb;
        if let Verb::Open { policy, .. } | Verb::SetPolicy { policy } = &command.verb {
            self.bench.ledger.set_policy_rules(policy).await.unwrap();
        }
    }

    async fn post(&mut self, command: &Command, now: Instant) -> Result<Ran, Refusal> {
        self.set_clock(now).await;
        self.know_policy(command).await;
        for quota in self.quotas_due.drain(..) {
            self.bench.ledger.set_quota(self.account, &quota).await.unwrap();
        }
        match self.bench.ledger.submit(command.clone()).await {
            Ok(posted) if posted.replayed => Ok(Ran::Replayed(posted.set.main().unwrap().seq)),
            Ok(posted) if posted.set.entries.is_empty() => Ok(Ran::Nothing),
            Ok(posted) => Ok(Ran::Posted(posted.set.entries)),
            Err(PostError::Refused(refusal)) => Err(refusal),
            Err(error) => panic!("{error}"),
        }
    }

    async fn rows(&self, sql: &'static str) -> Vec<PgRow> {
        sqlx::query(sql).bind(self.account.0).fetch_all(&self.bench.pool).await.unwrap()
    }

    async fn read(&self) -> Snapshot {
        let accounts = self.rows("select * from accounts where id = $1").await;
        let grants = self.rows("select * from grants where account_id = $1").await;
        let holds = self.rows("select * from holds where account_id = $1").await;
        let Some(row) = accounts.first() else {
            return Snapshot {
                status: AccountStatus::Open,
                policy: String::new(),
                head: Head::empty(),
                grants: Vec::new(),
                holds: Vec::new(),
            };
        };
        let status = AccountStatus::ALL[usize::try_from(row.get::<i16, _>("status") - 1).unwrap()];
        Snapshot {
            status,
            policy: row.get("policy"),
            head: head(row),
            grants: grants.iter().map(grant).collect(),
            holds: holds.iter().map(hold).collect(),
        }
    }
}

impl Subject for Database<'_> {
    fn run(&mut self, command: &Command, now: Instant) -> Result<Ran, Refusal> {
        let runtime = self.runtime;
        runtime.block_on(self.post(command, now))
    }

    fn snapshot(&self) -> Snapshot {
        self.runtime.block_on(self.read())
    }

    /// As a reader sees it: the clock is moved there and back by the next command.
    fn view(&self, at: Instant) -> Option<View> {
        let balance = self.runtime.block_on(self.bench.ledger.balance(self.account, Some(at))).unwrap()?;
        let [available, held, debt] = [balance.available, balance.held, balance.debt].map(Credits::micros);
        Some(View { available, held, debt })
    }
}

fn amount(row: &PgRow, column: &str) -> Credits {
    Credits::exact(row.get::<Decimal, _>(column)).unwrap()
}

fn head(row: &PgRow) -> Head {
    // Threes of kind, total of amount, total of moved.
    let mut totals = KindTotals::default();
    for three in row.get::<Vec<Decimal>, _>("totals").chunks(3) {
        let [kind, amount, moved] = three else { panic!("totals stand in threes") };
        let place = usize::try_from(kind.mantissa() / 10_i128.pow(kind.scale())).unwrap() - 1;
        totals.amount[place] = Credits::exact(*amount).unwrap();
        totals.moved[place] = Credits::exact(*moved).unwrap();
    }
    Head {
        seq: Seq(row.get("seq")),
        hash: row.get::<Vec<u8>, _>("hash").try_into().unwrap(),
        available: amount(row, "available"),
        held: amount(row, "held"),
        debt: amount(row, "debt"),
        written_off: amount(row, "written_off"),
        recorded_at: row.get("recorded_at"),
        effective_at: row.get("effective_at"),
        totals,
    }
}

fn grant(row: &PgRow) -> Grant {
    Grant {
        id: GrantId(row.get("id")),
        seq: Seq(row.get("seq")),
        pool: Pool::from_code(row.get("pool")).unwrap(),
        amount: amount(row, "amount"),
        remaining: amount(row, "remaining"),
        reserved: amount(row, "reserved"),
        expires_at: row.get("expires_at"),
        rolling: row.get("rolling"),
        voided_at: row.get("voided_at"),
        source: row.get("source"),
        granted_at: row.get("granted_at"),
        lapsed: amount(row, "lapsed"),
        lapse_taken: amount(row, "lapse_taken"),
        clawed_back: amount(row, "clawed_back"),
        restored: amount(row, "restored"),
        paid_to_debt: amount(row, "paid_to_debt"),
        given_back_for_debt: amount(row, "given_back_for_debt"),
    }
}

fn hold(row: &PgRow) -> Hold {
    let grants: Vec<uuid::Uuid> = row.get("part_grants");
    let amounts: Vec<Decimal> = row.get("part_amounts");
    let part = |(grant, amount): (uuid::Uuid, Decimal)| HoldPart {
        grant: GrantId(grant),
        amount: Credits::exact(amount).unwrap(),
    };
    Hold {
        id: HoldId(row.get("id")),
        seq: Seq(row.get("seq")),
        amount: amount(row, "amount"),
        status: HoldStatus::ALL[usize::try_from(row.get::<i16, _>("status") - 1).unwrap()],
        parts: grants.into_iter().zip(amounts).map(part).collect(),
        placed_at: row.get("placed_at"),
        lifetime_s: u32::try_from(row.get::<i32, _>("lifetime_s")).unwrap(),
        renewed_at: row.get::<DateTime<Utc>, _>("renewed_at"),
        expires_at: row.get("expires_at"),
        settled: amount(row, "settled"),
        released: amount(row, "released"),
        reversed: amount(row, "reversed"),
        needs_review: row.get("needs_review"),
        ended_by: row.get::<Option<i64>, _>("ended_by").map(Seq),
        late_settle: row.get::<Option<i64>, _>("late_settle").map(Seq),
        call: CallFields {
            member: row.get("member"),
            job_id: row.get("job_id"),
            request_ref: row.get("request_ref"),
            model: row.get("model"),
            key_ref: row.get("key_ref"),
        },
    }
}

/// Fewer than in memory: every step is a transaction and several reads.
#[test]
fn generated_histories_agree_with_the_model_through_the_database() {
    let histories = if std::env::var_os("DAYBOOK_FULL").is_some() { 1_000 } else { 80 };
    let runtime = Runtime::new().unwrap();
    let bench = runtime.block_on(Bench::start());
    let mut entries = 0;
    for number in 0..histories {
        // Other seeds than those in memory.
        let seed = 1_000_000 + number;
        let history = generate(seed);
        // All histories open an account of the same reference.
        runtime
            .block_on(async { sqlx::query("delete from account_refs").execute(&bench.pool).await })
            .unwrap();
        let mut subject = Database::new(&runtime, &bench, &history);
        match check(&history, &mut subject, &mut Reach::new(), None) {
            Ok(written) => entries += written,
            Err(failure) => panic!("seed {seed}, step {}: {}", failure.step, failure.text),
        }
    }
    println!("{histories} histories through the database, {entries} entries");
    runtime.block_on(bench.verify());
}
