//! `daybook purge`: the one door through which journal rows leave.

use serde_json::json;

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::Form;

/// Delete one account's journal for good, leaving a tombstone.
///
/// The tombstone keeps who, why, the last entry's number and hash, and sums by ledger account, pool and day, so that
/// reports and exported heads stay right. Nothing brings the entries back; `daybook erase` is what a person who wants
/// to be forgotten needs.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  daybook purge ref:cust-42 --why 'test data loaded by mistake' --by admin@example.org --yes"
)]
pub struct Args {
    /// The account's id, or ref: and your own reference
    account: String,
    /// Why; it stays with the tombstone
    #[arg(long)]
    why: String,
    /// The user who answers for it
    #[arg(long, value_name = "EMAIL")]
    by: String,
    /// Yes, delete it
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub async fn run(args: Args, common: &Common) -> Result<Exit, Failure> {
    if args.why.trim().is_empty() {
        return Err(Failure::usage("a purge needs a reason", "give --why TEXT"));
    }
    if !args.yes {
        return Err(Failure::usage(
            "this would delete the account's journal for good",
            "add --yes if that is meant",
        ));
    }
    let instance = Instance::open(common, Schema::Check).await?;
    let account = instance.account(&args.account).await?;
    let who = instance.user(&args.by).await?.id.to_string();
    let last = instance.ledger.purge(account, &who, &args.why).await?;
    let last = last.ok_or_else(|| Failure::new("the account is gone", "somebody purged it meanwhile"))?;
    Form::of(args.json).print(&json!({"account": account, "purged": true, "last_seq": last}), || {
        format!("The account {account} is purged, {last} entries; its tombstone stays.")
    })?;
    instance.close().await;
    Ok(Exit::Ok)
}
