//! `daybook quota`: how much a member or a customer's key may use of an account.

use ledger::Credits;
use ledger::quota::{Quota, Subject, Window};
use serde_json::json;

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::{Form, line};

#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Set how much a member or key may use in a day, a month, or ever
    #[command(after_help = "Days and months are those of the account's time zone.

Examples:
  daybook quota set ref:cust-42 --member m-ana --window day --limit 500
  daybook quota set ref:cust-42 --key-ref k-ci --window total --limit 10000.5")]
    Set(Set),
    /// Remove a quota
    Remove(Place),
    /// Show an account's quotas
    Show(Show),
}

#[derive(clap::Args, Debug)]
pub struct Set {
    #[command(flatten)]
    place: Place,
    /// Credits, such as 500 or 0.25
    #[arg(long, value_name = "CREDITS", value_parser = parse_limit)]
    limit: Credits,
}

#[derive(clap::Args, Debug)]
pub struct Place {
    /// The account's id, or ref: and your own reference
    account: String,
    #[command(flatten)]
    who: Who,
    /// day, month or total
    #[arg(long, value_parser = parse_window)]
    window: Window,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub struct Show {
    /// The account's id, or ref: and your own reference
    account: String,
    /// Print one JSON object a quota
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Who {
    /// The member whom it binds
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    member: Option<String>,
    /// The customer's own key that it binds
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    key_ref: Option<String>,
}

/// As the API takes the ids of members and keys: a quota on any other could never bind a call.
fn parse_id(text: &str) -> Result<String, String> {
    server::http::v1::checked_name(text)
}

fn parse_window(text: &str) -> Result<Window, String> {
    Window::parse(text).ok_or_else(|| "one of day, month, total".to_owned())
}

fn parse_limit(text: &str) -> Result<Credits, String> {
    let limit = Credits::parse(text).map_err(|error| error.to_string())?;
    if limit.is_negative() { Err("is below zero".to_owned()) } else { Ok(limit) }
}

pub async fn run(command: Command, common: &Common) -> Result<Exit, Failure> {
    let instance = Instance::open(common, Schema::Check).await?;
    match command {
        Command::Set(args) => set(args, &instance).await?,
        Command::Remove(args) => remove(args, &instance).await?,
        Command::Show(args) => show(args, &instance).await?,
    }
    instance.close().await;
    Ok(Exit::Ok)
}

async fn set(args: Set, instance: &Instance) -> Result<(), Failure> {
    let account = instance.account(&args.place.account).await?;
    let subject = subject(&args.place.who)?;
    let quota = Quota { subject: subject.clone(), window: args.place.window, limit: args.limit };
    instance.ledger.set_quota(account, &quota).await?;
    let object =
        json!({"account": account, "subject": subject, "window": args.place.window, "limit": args.limit});
    Form::of(args.place.json).print(&object, || {
        format!("{} may use {} credits ({}).", named(&subject), args.limit, args.place.window.as_str())
    })
}

async fn remove(args: Place, instance: &Instance) -> Result<(), Failure> {
    let account = instance.account(&args.account).await?;
    let subject = subject(&args.who)?;
    let existed = instance.ledger.remove_quota(account, &subject, args.window).await?;
    let object = json!({"account": account, "subject": subject, "window": args.window, "removed": existed});
    Form::of(args.json).print(&object, || match existed {
        true => format!("{} has no {} quota any more.", named(&subject), args.window.as_str()),
        false => format!("{} had no {} quota.", named(&subject), args.window.as_str()),
    })
}

async fn show(args: Show, instance: &Instance) -> Result<(), Failure> {
    let account = instance.account(&args.account).await?;
    let quotas = instance.ledger.quotas(account).await?;
    if quotas.is_empty() && !args.json {
        return line("The account has no quotas.");
    }
    quotas.iter().try_for_each(|Quota { subject, window, limit }| {
        let object = json!({"account": account, "subject": subject, "window": window, "limit": limit});
        Form::of(args.json)
            .print(&object, || format!("{} may use {limit} credits ({}).", named(subject), window.as_str()))
    })
}

fn subject(who: &Who) -> Result<Subject, Failure> {
    match (&who.member, &who.key_ref) {
        (Some(member), None) => Ok(Subject::Member(member.clone())),
        (None, Some(key_ref)) => Ok(Subject::KeyRef(key_ref.clone())),
        _ => Err(Failure::usage("a quota binds a member or a key", "give --member or --key-ref")),
    }
}

fn named(subject: &Subject) -> String {
    match subject {
        Subject::Member(id) => format!("Member {id}"),
        Subject::KeyRef(id) => format!("Key {id}"),
    }
}
