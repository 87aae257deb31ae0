//! A database of its own for each test, copied from one that was migrated once, and a small client of the ledger.
#![expect(clippy::disallowed_methods, reason = "tests make their own ids")]

use std::sync::OnceLock;

use chrono::{DateTime, Utc};
use ledger::command::{Actor, CallFields, Command, Expiry, Origin, Verb, key_digest};
use ledger::entry::Words;
use ledger::grant::Pool;
use ledger::ids::{AccountId, GrantId, HoldId};
use ledger::policy::Policy;
use ledger::poster::Options;
use ledger::service::{PostError, Posted};
use ledger::{Credits, Database, Ledger};
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use uuid::Uuid;

/// Migrating takes longer than copying: the template is made by the first test of the process that asks.
const TEMPLATE: &str = "daybook_test_template";

/// The server that `cargo xtask test` started, or the one that whoever runs the tests named.
pub fn server() -> PgConnectOptions {
    let url = std::env::var("DATABASE_URL").expect(
        "tests need DATABASE_URL, a server where they may create databases; `cargo xtask test` starts one",
    );
    url.parse().expect("DATABASE_URL is a postgres:// URL")
}

/// Makes sure that the template holds this very set of migrations. Test processes start together, so it is made under a lock.
async fn template(admin: &mut PgConnection) -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    let mark: Vec<u8> = ledger::MIGRATOR.iter().flat_map(|migration| migration.checksum.to_vec()).collect();
    let name = NAME.get_or_init(|| format!("{TEMPLATE}_{}", &hex(&key_digest(&hex(&mark)))[..12])).clone();
    admin.execute("select pg_advisory_lock(7243)").await.unwrap();
    let exists: bool = sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(&name)
        .fetch_one(&mut *admin)
        .await
        .unwrap();
    if !exists {
        admin.execute(AssertSqlSafe(format!("drop database if exists {name}_new"))).await.unwrap();
        admin.execute(AssertSqlSafe(format!("create database {name}_new"))).await.unwrap();
        let mut fresh = PgConnection::connect_with(&server().database(&format!("{name}_new"))).await.unwrap();
        ledger::MIGRATOR.run(&mut fresh).await.unwrap();
        fresh.close().await.unwrap();
        admin.execute(AssertSqlSafe(format!("alter database {name}_new rename to {name}"))).await.unwrap();
    }
    admin.execute("select pg_advisory_unlock(7243)").await.unwrap();
    name
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A fresh, migrated database.
pub async fn fresh_database() -> PgConnectOptions {
    let mut admin = PgConnection::connect_with(&server()).await.expect("the test server answers");
    let template = template(&mut admin).await;
    let name = format!("daybook_test_{}", Uuid::new_v4().simple());
    admin.execute(AssertSqlSafe(format!("create database {name} template {template}"))).await.unwrap();
    admin.close().await.unwrap();
    server().database(&name)
}

/// A ledger on a database of its own.
pub struct Bench {
    pub options: PgConnectOptions,
    pub pool: PgPool,
    pub ledger: Ledger,
}

impl Bench {
    pub async fn start() -> Bench {
        Bench::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Bench {
        Bench::on(fresh_database().await, options).await
    }

    pub async fn on(database: PgConnectOptions, options: Options) -> Bench {
        let handle = Database { options: database.clone(), role: ledger::APP_ROLE.to_owned() };
        let pool = handle.pool(8);
        Bench { options: database, ledger: Ledger::start(pool.clone(), &handle, options), pool }
    }

    /// A connection as the role that migrated, which owns the tables.
    pub async fn owner(&self) -> PgConnection {
        PgConnection::connect_with(&self.options).await.unwrap()
    }

    pub async fn clock(&self, at: &str) {
        self.ledger.set_test_clock(instant(at)).await.unwrap();
    }

    /// An opened account with `amount` paid credits that never end.
    pub async fn funded(&self, amount: &str) -> AccountId {
        let account = self.open(&Uuid::new_v4().to_string()).await;
        if amount != "0" {
            self.grant(account, amount, Pool::Paid, Expiry::Never).await;
        }
        account
    }

    pub async fn open(&self, external_ref: &str) -> AccountId {
        let posted = self.ledger.submit(open_command(external_ref)).await.unwrap();
        posted.set.main().unwrap().account
    }

    pub async fn grant(&self, account: AccountId, amount: &str, pool: Pool, expires: Expiry) -> GrantId {
        let id = GrantId(Uuid::new_v4());
        let verb = Verb::Grant { id, amount: credits(amount), pool, expires, source: None };
        self.ledger.submit(command(account, &Uuid::new_v4().to_string(), verb)).await.unwrap();
        id
    }

    pub async fn charge(&self, account: AccountId, key: &str, amount: &str) -> Result<Posted, PostError> {
        self.ledger.submit(command(account, key, Verb::Charge { amount: credits(amount) })).await
    }

    pub async fn hold(
        &self,
        account: AccountId,
        key: &str,
        amount: &str,
        expires_in_s: Option<u32>,
    ) -> Result<HoldId, PostError> {
        let id = HoldId(Uuid::now_v7());
        let verb = Verb::Hold { id, amount: credits(amount), expires_in_s };
        let posted = self.ledger.submit(command(account, key, verb)).await?;
        Ok(posted.set.main().unwrap().hold.unwrap())
    }

    pub async fn settle(
        &self,
        account: AccountId,
        key: &str,
        hold: HoldId,
        amount: &str,
    ) -> Result<Posted, PostError> {
        self.ledger.submit(command(account, key, Verb::Settle { hold, amount: credits(amount) })).await
    }

    /// Available, held and debt now.
    pub async fn figures(&self, account: AccountId) -> (String, String, String) {
        let balance = self.ledger.balance(account, None).await.unwrap().unwrap();
        (balance.available.to_string(), balance.held.to_string(), balance.debt.to_string())
    }

    /// Recomputes everything; every test ends with it.
    pub async fn verify(&self) {
        let report = self.ledger.verify(|_| {}).await.unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

pub fn open_command(external_ref: &str) -> Command {
    let verb = Verb::Open {
        external_ref: external_ref.to_owned(),
        name: None,
        email: None,
        policy: Policy::default(),
        time_zone: "UTC".to_owned(),
    };
    command(AccountId(Uuid::new_v4()), &format!("open {external_ref}"), verb)
}

pub fn command(account: AccountId, key: &str, verb: Verb) -> Command {
    Command {
        account,
        key: Some((Origin::Api, key_digest(key))),
        actor: Actor::api_key("test"),
        verb,
        call: CallFields::default(),
        occurred_at: None,
        words: Words::default(),
        source_address: None,
    }
}

pub fn credits(text: &str) -> Credits {
    Credits::parse(text).unwrap()
}

pub fn instant(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().with_timezone(&Utc)
}
