//! `daybook migrate`, and the one place that changes the schema.

use ledger::MIGRATOR;
use sqlx::migrate::{Migrate, MigrateError};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use server::config::Config;

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{self, Database};
use super::output::Form;

/// The name of sqlx's own table.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

/// Bring the database to this version's schema.
///
/// Runs as the owner (DATABASE_OWNER_URL, else DATABASE_URL) and is safe to run twice, or from two places at once.
/// The role that serves requests is created if the owner may; else the statement to run is printed.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  daybook migrate\n  DATABASE_URL=postgres://owner@db/daybook daybook migrate --json"
)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Migrated {
    applied: usize,
    schema: i64,
}

pub async fn run(args: Args, common: &Common) -> Result<Exit, Failure> {
    let database = instance::find_database(common).await?;
    let applied = migrate(&database).await?;
    let migrated = Migrated { applied, schema: newest() };
    Form::of(args.json).print(&migrated, || match applied {
        0 => format!("The schema is at {} already.", newest()),
        _ => format!("Applied {applied} migrations; the schema is at {}.", newest()),
    })?;
    database.close().await;
    Ok(Exit::Ok)
}

/// Applies what is missing; how many migrations that was.
pub async fn migrate(database: &Database) -> Result<usize, Failure> {
    let mut owner = connect(&database.owner_url).await?;
    ensure_roles(&mut owner, &database.config).await?;
    let before = applied(&mut owner).await?;
    MIGRATOR.run(&mut owner).await.map_err(|error| of_migration(&error))?;
    let after = applied(&mut owner).await?;
    grant_role(&mut owner, &database.config).await?;
    drop(owner.close().await);
    Ok(after.saturating_sub(before))
}

/// Fails where the schema is not this version's.
pub async fn check(database: &Database) -> Result<(), Failure> {
    let mut owner = connect(&database.owner_url).await?;
    let applied = applied(&mut owner).await?;
    drop(owner.close().await);
    if applied == MIGRATOR.iter().count() {
        return Ok(());
    }
    Err(Failure::new(
        "the database does not have this version's schema",
        "run `daybook migrate` and then the command again",
    ))
}

fn newest() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0)
}

async fn connect(url: &str) -> Result<PgConnection, Failure> {
    PgConnection::connect(url).await.map_err(Failure::database)
}

/// How many migrations the database has had.
async fn applied(owner: &mut PgConnection) -> Result<usize, Failure> {
    let exists = sqlx::query_scalar!("select to_regclass('_sqlx_migrations') is not null as \"exists!\"")
        .fetch_one(&mut *owner)
        .await
        .map_err(Failure::database)?;
    if !exists {
        return Ok(0);
    }
    let listed = owner.list_applied_migrations(MIGRATIONS_TABLE).await;
    Ok(listed.map_err(|error| of_migration(&error))?.len())
}

/// The serving role must be there before the first migration gives it rights. Several databases of one cluster may be
/// migrated at the same moment, hence the lock.
async fn ensure_roles(owner: &mut PgConnection, config: &Config) -> Result<(), Failure> {
    sqlx::query!("select pg_advisory_lock(hashtext('daybook.role'))")
        .fetch_one(&mut *owner)
        .await
        .map_err(Failure::database)?;
    let mut ensured = ensure_role(owner, ledger::APP_ROLE).await;
    if ensured.is_ok() && config.database.role != ledger::APP_ROLE {
        ensured = ensure_role(owner, &config.database.role).await;
    }
    sqlx::query!("select pg_advisory_unlock(hashtext('daybook.role'))")
        .fetch_one(&mut *owner)
        .await
        .map_err(Failure::database)?;
    ensured
}

async fn ensure_role(owner: &mut PgConnection, role: &str) -> Result<(), Failure> {
    // A name cannot be a parameter of CREATE ROLE; the server itself quotes it here.
    let state = sqlx::query!(
        "select exists (select from pg_roles where rolname = $1) as \"exists!\",
                (select rolsuper or rolcreaterole from pg_roles where rolname = current_user) as \"may_create!\",
                format('create role %I nologin', $1::text) as \"create!\",
                format('grant %I to %I', $1::text, current_user) as \"grant!\"",
        role
    )
    .fetch_one(&mut *owner)
    .await
    .map_err(Failure::database)?;
    match (state.exists, state.may_create) {
        (true, _) => Ok(()),
        (false, true) => sqlx::raw_sql(AssertSqlSafe(state.create))
            .execute(&mut *owner)
            .await
            .map(|_| ())
            .map_err(Failure::database),
        (false, false) => Err(Failure::new(
            format!("the role {role} is missing, and this login may not create roles"),
            format!("let an administrator run: {}; {};", state.create, state.grant),
        )),
    }
}

/// The login must be able to become the serving role, and that role must have the rights of `daybook_app`, to which the
/// migrations give them.
async fn grant_role(owner: &mut PgConnection, config: &Config) -> Result<(), Failure> {
    let role = &config.database.role;
    let statements = sqlx::query!(
        "select case when not pg_has_role(current_user, $1::text::name, 'member') then format('grant %I to current_user', $1::text) end as login,
                case when not pg_has_role($1::text::name, 'daybook_app', 'member')
                     then format('grant daybook_app to %I', $1::text) end as rights",
        role
    )
    .fetch_one(&mut *owner)
    .await
    .map_err(Failure::database)?;
    for statement in [statements.login, statements.rights].into_iter().flatten() {
        let granted = sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(&mut *owner).await;
        granted.map_err(|error| {
            Failure::new(
                format!("the role {role} cannot be used by this login: {error}"),
                format!("let an administrator run: {statement};"),
            )
        })?;
    }
    Ok(())
}

fn of_migration(error: &MigrateError) -> Failure {
    match error {
        MigrateError::VersionMissing(version) => Failure::new(
            format!("the database has migration {version}, which this program does not know"),
            "use the newer program that made it, or another database",
        ),
        MigrateError::VersionMismatch(version) => Failure::new(
            format!("migration {version} is not the one that the database has had"),
            "use the program that made the database, or an empty one",
        ),
        other => Failure::new(
            format!("the schema could not be changed: {other}"),
            "see that DATABASE_URL (or DATABASE_OWNER_URL) names a login that owns the database, and that no old transaction blocks it",
        ),
    }
}
