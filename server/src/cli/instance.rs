//! What a command works on: the configuration, the database (found or started), the ledger and the access room.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;

use backoffice::access::{Access, AccessOptions, User};
use ledger::Ledger;
use ledger::command::Actor;
use ledger::ids::AccountId;
use server::config::{Config, Flags, Sources};
use sqlx::PgPool;
use tracing_subscriber::EnvFilter;

use super::failure::Failure;
use super::{Common, migrate};

/// Whether a command may change the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// Applies what is missing.
    Migrate,
    /// Asks for `daybook migrate` where something is missing, unless the database is our private one.
    Check,
}

/// The database and, where none was named, the private Postgres that serves it.
pub struct Database {
    pub config: Config,
    pub url: String,
    pub owner_url: String,
    pub postgres: Option<Arc<daybook_postgres::Running>>,
}

/// Everything a command needs.
pub struct Instance {
    pub database: Database,
    pub pool: PgPool,
    pub ledger: Ledger,
    pub access: Access,
}

/// Warnings and errors of the rooms below, on standard error.
pub fn log_warnings() {
    // A busy pool is no news to somebody who waits for a command.
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,sqlx::pool=error"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let subscriber = builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).finish();
    // Somebody set one before: theirs is as good.
    drop(tracing::subscriber::set_global_default(subscriber));
}

/// Reads the configuration: file, environment, then flags.
pub fn load_config(common: &Common, mut flags: Flags) -> Result<Config, Failure> {
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    flags.database_url = common.database_url.clone();
    Config::load(Sources { file: common.config.clone(), environment, flags }).map_err(|error| {
        Failure::usage(format!("the configuration is wrong: {error}"), "correct the setting that it names")
    })
}

/// Finds the database that the configuration names, or starts the private one.
pub async fn find_database(common: &Common) -> Result<Database, Failure> {
    with_config(load_config(common, Flags::default())?).await
}

pub async fn with_config(config: Config) -> Result<Database, Failure> {
    let (url, postgres) = match &config.database.url {
        Some(url) => (url.clone(), None),
        None => {
            let running = start_postgres(&config).await?;
            (running.url(), Some(Arc::new(running)))
        }
    };
    let owner_url = config.database.owner_url.clone().unwrap_or_else(|| url.clone());
    Ok(Database { config, url, owner_url, postgres })
}

async fn start_postgres(config: &Config) -> Result<daybook_postgres::Running, Failure> {
    let folder = config.database.data_dir.clone();
    let started = tokio::task::spawn_blocking(move || {
        daybook_postgres::Cluster::open_or_init(daybook_postgres::Options::for_data_dir(&folder)?)?.start()
    });
    let started = started.await.map_err(Failure::database)?;
    started.map_err(|error| {
        Failure::new(
            format!(
                "no database: DATABASE_URL is not set, and a private Postgres cannot be started: {error}"
            ),
            postgres_hint(&error),
        )
    })
}

fn postgres_hint(error: &daybook_postgres::PostgresError) -> &'static str {
    use daybook_postgres::PostgresError;
    match error {
        PostgresError::NotFound { .. } | PostgresError::BadPgBin(_) | PostgresError::WrongVersion { .. } => {
            "install the Postgres server (Debian, Ubuntu: apt-get install postgresql), or set DATABASE_URL"
        }
        PostgresError::NoOtherUser => "add a user named postgres, or set DATABASE_URL",
        _ => "mend what it names and start again; the server's own log lies beside its data",
    }
}

impl Database {
    /// Stops the private Postgres if this was its last user.
    pub async fn close(self) {
        if let Some(running) = self.postgres {
            // Stopping waits for a checkpoint, which is no work for an async thread.
            drop(tokio::task::spawn_blocking(move || drop(running)).await);
        }
    }
}

impl Instance {
    pub async fn open(common: &Common, schema: Schema) -> Result<Instance, Failure> {
        Instance::of(find_database(common).await?, schema).await
    }

    pub async fn of(database: Database, schema: Schema) -> Result<Instance, Failure> {
        if schema == Schema::Migrate || database.postgres.is_some() {
            migrate::migrate(&database).await?;
        } else {
            migrate::check(&database).await?;
        }
        let settings = &database.config.database;
        let store = ledger::Database::parse(&database.url, &settings.role).map_err(|error| {
            Failure::usage(
                format!("DATABASE_URL cannot be read: {error}"),
                "give it as postgres://user:password@host/database",
            )
        })?;
        let pool = store.pool(settings.connections_max);
        let ledger = Ledger::start(pool.clone(), &store, database.config.poster.into());
        let access = Access::new(pool.clone(), AccessOptions::default());
        Ok(Instance { database, pool, ledger, access })
    }

    /// The account of an id or of `ref:` and the operator's own reference.
    pub async fn account(&self, text: &str) -> Result<AccountId, Failure> {
        let found = match text.strip_prefix("ref:") {
            Some(reference) => self.ledger.account_by_ref(reference).await?,
            None => {
                let id = text.parse::<AccountId>().map_err(|_| {
                    Failure::usage(
                        format!("{text:?} is no account"),
                        "give an account's id, or ref: and your own reference, such as ref:cust-42",
                    )
                })?;
                self.ledger.account(id).await?.map(|account| account.id)
            }
        };
        found.ok_or_else(|| {
            Failure::new(
                format!("there is no account {text}"),
                "look it up on the Accounts page or with GET /v1/accounts?q=",
            )
        })
    }

    pub async fn user(&self, email: &str) -> Result<User, Failure> {
        let user = self.access.user_by_email(email).await?;
        user.ok_or_else(|| {
            Failure::new(format!("there is no user {email}"), "add one with `daybook user add`")
        })
    }

    /// Who is recorded as having done what the command does.
    pub async fn actor(&self, email: Option<&str>) -> Result<Actor, Failure> {
        match email {
            Some(email) => Ok(self.user(email).await?.actor()),
            None => Ok(Actor::worker("command-line")),
        }
    }

    pub async fn close(self) {
        drop(self.ledger);
        self.pool.close().await;
        self.database.close().await;
    }
}
