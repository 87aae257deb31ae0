//! `daybook demo`: something to look at.

use serde_json::json;
use server::state::machine_now;

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::{self, bar, grouped_count, line};
use crate::demo::{ClockAfter, Demo, DemoError, Loader};

/// Load demo data into an empty database: four logins, two customers.
///
/// The logins get random passwords, printed once. A database that holds anything else is left alone.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  daybook demo\n  daybook demo --json > logins.json")]
pub struct Args {
    /// Print one JSON object: loaded, logins (role, email, password), accounts
    #[arg(long)]
    json: bool,
}

/// How the logins are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Words,
    Json,
}

pub async fn run(args: Args, common: &Common) -> Result<Exit, Failure> {
    let instance = Instance::open(common, Schema::Migrate).await?;
    let shown = if args.json { Shown::Json } else { Shown::Words };
    let loaded = load_if_empty(&instance, ClockAfter::Running, shown).await?;
    match (loaded, shown) {
        (false, Shown::Words) => line("The database is not empty; nothing was loaded.")?,
        (false, Shown::Json) => line(&json!({"loaded": false, "logins": [], "accounts": []}).to_string())?,
        (true, _) => {}
    }
    instance.close().await;
    Ok(Exit::Ok)
}

/// Loads and shows the logins; whether there was room for it.
pub async fn load_if_empty(
    instance: &Instance,
    clock_after: ClockAfter,
    shown: Shown,
) -> Result<bool, Failure> {
    let loader =
        Loader { ledger: &instance.ledger, access: &instance.access, now: machine_now(), clock_after };
    if !loader.is_empty().await.map_err(of_demo)? {
        return Ok(false);
    }
    let bar = bar("loading demo data", 0);
    let loaded = loader.load(|done, steps| {
        bar.set_length(u64::try_from(steps).unwrap_or(0));
        bar.set_position(u64::try_from(done).unwrap_or(0));
    });
    let demo = loaded.await.map_err(of_demo)?;
    bar.finish_and_clear();
    match shown {
        Shown::Words => line(&in_words(&demo))?,
        Shown::Json => line(&output::json(
            &json!({"loaded": true, "logins": demo.logins, "accounts": demo.accounts, "entries": demo.entries}),
        )?)?,
    }
    Ok(true)
}

fn in_words(demo: &Demo) -> String {
    let accounts = demo.accounts.iter().map(|account| account.name).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "Demo data: {} entries for {accounts}.\nDemo logins, shown this once:",
        grouped_count(demo.entries)
    );
    for login in &demo.logins {
        text.push_str(&format!("\n  {:<9} {:<24} {}", login.role.as_str(), login.email, login.password));
    }
    text
}

fn of_demo(error: DemoError) -> Failure {
    match error {
        DemoError::Access(error) => error.into(),
        DemoError::Read(error) => error.into(),
        DemoError::Page(error) => error.into(),
        other => Failure::new(
            format!("the demo data cannot be loaded: {other}"),
            "load it into a fresh, empty database",
        ),
    }
}
