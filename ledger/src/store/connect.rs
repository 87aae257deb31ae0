//! Connections: every one but migration's gives up its own role for one that owns nothing.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

/// The role that serves requests unless the configuration names another.
pub const APP_ROLE: &str = "daybook_app";

/// How to reach the database, and as whom.
#[derive(Clone, Debug)]
pub struct Database {
    pub options: PgConnectOptions,
    pub role: String,
}

impl Database {
    /// Reads a `postgres://` URL.
    pub fn parse(url: &str, role: &str) -> Result<Database, sqlx::Error> {
        let options =
            url.parse::<PgConnectOptions>()?.application_name("daybook").disable_statement_logging();
        Ok(Database { options, role: role.to_owned() })
    }

    /// A pool for reads and for the other rooms' tables. Plans are made for the values at hand, since the filters of a
    /// list are optional and a plan for all of them serves none.
    pub fn pool(&self, connections_max: u32) -> PgPool {
        let settings = format!(
            "set role {}; set statement_timeout = '30s'; set lock_timeout = '5s'; set idle_in_transaction_session_timeout = '30s'; \
             set plan_cache_mode = force_custom_plan; set jit = off; set timezone = 'UTC'",
            quoted(&self.role)
        );
        PgPoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(Duration::from_secs(8))
            .after_connect(move |connection, _| {
                let settings = settings.clone();
                Box::pin(async move { connection.execute(AssertSqlSafe(settings)).await.map(|_| ()) })
            })
            .connect_lazy_with(self.options.clone())
    }

    /// A connection for a lane. Its statements run over arrays by primary key; a plan made while the tables were still
    /// empty would scan them for ever, so plans other than by index are switched off. Rounds that may wait for a lock say so.
    pub(crate) async fn lane(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        let settings = format!(
            "set role {}; set statement_timeout = '7s'; set lock_timeout = '1ms'; set idle_in_transaction_session_timeout = '10s'; \
             set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set enable_bitmapscan = off; \
             set plan_cache_mode = force_generic_plan; set jit = off; set timezone = 'UTC'",
            quoted(&self.role)
        );
        connection.execute(AssertSqlSafe(settings)).await?;
        Ok(connection)
    }
}

fn quoted(role: &str) -> String {
    format!("\"{}\"", role.replace('"', "\"\""))
}
