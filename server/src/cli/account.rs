//! `daybook account`: what an account is, and whether it may be charged.

use ledger::account::AccountStatus;
use ledger::command::{CallFields, Command as Order, Origin, Verb, key_digest};
use ledger::entry::Words;
use ledger::ids::{AccountId, fresh};
use ledger::service::AccountView;
use serde_json::{Value, json};

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::{Form, grouped};

#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Show an account, or change its state
    #[command(
        after_help = "States: open; read-only and blocked take no new charges and holds; closed. What ends,
corrects or gives back goes on in every state.

Examples:
  daybook account state ref:cust-42
  daybook account state ref:cust-42 blocked --reason 'card stolen' --by sam@example.org"
    )]
    State(State),
    /// Point an account at another policy
    #[command(after_help = "Example:\n  daybook account policy ref:cust-42 generous --by fin@example.org")]
    Policy(Policy),
}

#[derive(clap::Args, Debug)]
pub struct State {
    /// The account's id, or ref: and your own reference
    account: String,
    /// open, read-only, blocked or closed; without it the account is shown
    #[arg(value_parser = parse_status)]
    state: Option<AccountStatus>,
    #[command(flatten)]
    why: Why,
}

#[derive(clap::Args, Debug)]
pub struct Policy {
    /// The account's id, or ref: and your own reference
    account: String,
    /// The policy's name
    policy: String,
    #[command(flatten)]
    why: Why,
}

#[derive(clap::Args, Debug)]
pub struct Why {
    /// Recorded with the change
    #[arg(long)]
    reason: Option<String>,
    /// The user who is recorded as having done it
    #[arg(long, value_name = "EMAIL")]
    by: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_status(text: &str) -> Result<AccountStatus, String> {
    AccountStatus::parse(&text.replace('-', "_"))
        .ok_or_else(|| "one of open, read-only, blocked, closed".to_owned())
}

pub async fn run(command: Command, common: &Common) -> Result<Exit, Failure> {
    let instance = Instance::open(common, Schema::Check).await?;
    match command {
        Command::State(args) => state(args, &instance).await?,
        Command::Policy(args) => policy(args, &instance).await?,
    }
    instance.close().await;
    Ok(Exit::Ok)
}

async fn state(args: State, instance: &Instance) -> Result<(), Failure> {
    let account = instance.account(&args.account).await?;
    if let Some(status) = args.state {
        change(instance, account, Verb::SetStatus { status }, &args.why).await?;
    }
    print(instance, account, args.why.json).await
}

async fn policy(args: Policy, instance: &Instance) -> Result<(), Failure> {
    let account = instance.account(&args.account).await?;
    let policy = instance.ledger.policy(&args.policy).await?;
    let policy = policy.ok_or_else(|| {
        Failure::new(format!("there is no policy {}", args.policy), "see `daybook policy show`")
    })?;
    change(instance, account, Verb::SetPolicy { policy }, &args.why).await?;
    print(instance, account, args.why.json).await
}

async fn change(instance: &Instance, account: AccountId, verb: Verb, why: &Why) -> Result<(), Failure> {
    let now = instance.ledger.now().await?;
    let order = Order {
        account,
        // A command line is not repeated by machine, so each call is a command of its own.
        key: Some((Origin::Form, key_digest(&format!("command-line-{}", fresh(now))))),
        actor: instance.actor(why.by.as_deref()).await?,
        verb,
        call: CallFields::default(),
        occurred_at: None,
        words: Words { reason: why.reason.clone(), metadata: None },
        source_address: None,
    };
    instance.ledger.submit(order).await?;
    Ok(())
}

async fn print(instance: &Instance, account: AccountId, json: bool) -> Result<(), Failure> {
    let view = instance.ledger.account(account).await?;
    let view = view.ok_or_else(|| Failure::new("the account is gone", "somebody purged it meanwhile"))?;
    Form::of(json).print(&shown(&view), || described(&view))
}

fn shown(view: &AccountView) -> Value {
    json!({
        "id": view.id, "external_ref": view.external_ref, "state": view.status, "policy": view.policy,
        "available": view.balance.available, "held": view.balance.held, "balance": view.balance.balance,
        "debt": view.balance.debt, "as_of": view.balance.as_of,
    })
}

fn described(view: &AccountView) -> String {
    let reference =
        view.external_ref.as_deref().map(|reference| format!(" ref:{reference}")).unwrap_or_default();
    let money = &view.balance;
    format!(
        "{}{reference}\nstate {}, policy {}\navailable {}  held {}  debt {}",
        view.id,
        view.status.as_str(),
        view.policy,
        grouped(money.available.decimal()),
        grouped(money.held.decimal()),
        grouped(money.debt.decimal()),
    )
}
