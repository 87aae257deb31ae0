//! `daybook erase`: the words that name people go, the journal stays.

use serde_json::json;

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::Form;

/// Erase the words that name people from one account, and close it out.
///
/// Name, e-mail, your own reference and every free text are deleted; what is left of the credits is closed out by an
/// entry of its own. The entries stay, and the account's chain still verifies.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  daybook erase ref:cust-42 --by admin@example.org --yes")]
pub struct Args {
    /// The account's id, or ref: and your own reference
    account: String,
    /// The user who is recorded as having done it
    #[arg(long, value_name = "EMAIL")]
    by: Option<String>,
    /// Yes, erase it
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub async fn run(args: Args, common: &Common) -> Result<Exit, Failure> {
    if !args.yes {
        return Err(Failure::usage(
            "this would erase the customer's words and close the account out",
            "add --yes if that is meant",
        ));
    }
    let instance = Instance::open(common, Schema::Check).await?;
    let account = instance.account(&args.account).await?;
    let actor = instance.actor(args.by.as_deref()).await?;
    instance.ledger.erase(account, actor).await?;
    Form::of(args.json).print(&json!({"account": account, "erased": true}), || {
        format!("The account {account} is erased.")
    })?;
    instance.close().await;
    Ok(Exit::Ok)
}
