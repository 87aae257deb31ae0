//! `daybook key`: API keys of services.

use backoffice::access::{ApiKey, CreateKeyError, NewKey, Scope};
use chrono::Days;
use serde_json::{Value, json};

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::{Form, line};

#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Make an API key; prints it once
    #[command(after_help = "Scopes: accounts:write, read, usage:write, grants:write, refunds:write, adjust

Examples:
  daybook key create gateway --owner admin@example.org --scope read --scope usage:write
  KEY=$(daybook key create ci --owner admin@example.org --scope read --expires-in-days 7 --json | jq -r .key)")]
    Create(Create),
    /// List API keys, without their secrets
    List(List),
    /// Revoke an API key; running servers stop taking it within a second
    Revoke(Revoke),
}

#[derive(clap::Args, Debug)]
pub struct Create {
    /// What the key is for
    name: String,
    /// The user who answers for it: their role limits what it may do
    #[arg(long, value_name = "EMAIL")]
    owner: String,
    /// What it may do. May be given again
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',', value_parser = parse_scope)]
    scopes: Vec<Scope>,
    /// Ends by itself after so many days
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=3660))]
    expires_in_days: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub struct List {
    /// Only the keys of this user
    #[arg(long, value_name = "EMAIL")]
    owner: Option<String>,
    /// Print one JSON object a key
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub struct Revoke {
    /// The key's id: the part after dbk_
    id: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_scope(text: &str) -> Result<Scope, String> {
    Scope::parse(text).ok_or_else(|| {
        let names: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        format!("one of {}", names.join(", "))
    })
}

pub async fn run(command: Command, common: &Common) -> Result<Exit, Failure> {
    let instance = Instance::open(common, Schema::Check).await?;
    match command {
        Command::Create(args) => create(args, &instance).await?,
        Command::List(args) => list(args, &instance).await?,
        Command::Revoke(args) => revoke(args, &instance).await?,
    }
    instance.close().await;
    Ok(Exit::Ok)
}

async fn create(args: Create, instance: &Instance) -> Result<(), Failure> {
    let owner = instance.user(&args.owner).await?;
    let now = server::state::machine_now();
    let expires_at = args.expires_in_days.and_then(|days| now.checked_add_days(Days::new(u64::from(days))));
    let new = NewKey { name: args.name, owner: owner.id, scopes: args.scopes, expires_at };
    let created = instance.access.create_key(new, now).await.map_err(of_creation)?;
    let mut object = shown(&created.key);
    object["key"] = json!(created.bearer);
    Form::of(args.json)
        .print(&object, || format!("{}\nkey, shown this once: {}", described(&created.key), created.bearer))
}

async fn list(args: List, instance: &Instance) -> Result<(), Failure> {
    let owner = match &args.owner {
        Some(email) => Some(instance.user(email).await?.id),
        None => None,
    };
    let keys = instance.access.keys(owner).await?;
    if keys.is_empty() && !args.json {
        return line("There are no API keys. `daybook key create` makes one.");
    }
    keys.iter().try_for_each(|key| Form::of(args.json).print(&shown(key), || described(key)))
}

async fn revoke(args: Revoke, instance: &Instance) -> Result<(), Failure> {
    let now = server::state::machine_now();
    if !instance.access.revoke_key(&args.id, now).await? {
        return Err(Failure::new(format!("there is no live key {}", args.id), "see `daybook key list`"));
    }
    Form::of(args.json).print(&json!({"id": args.id, "revoked_at": now}), || {
        format!("The key {} is revoked; running servers stop taking it within a second.", args.id)
    })
}

fn shown(key: &ApiKey) -> Value {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    json!({
        "id": key.id, "name": key.name, "owner": key.owner, "scopes": scopes, "created_at": key.created_at,
        "expires_at": key.expires_at, "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    })
}

fn described(key: &ApiKey) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let end = match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {}", at.format("%Y-%m-%d %H:%M UTC")),
        (None, Some(at)) => format!("until {}", at.format("%Y-%m-%d %H:%M UTC")),
        (None, None) => "without end".to_owned(),
    };
    let used = key.last_used_at.map_or_else(
        || "never used".to_owned(),
        |at| format!("last used {}", at.format("%Y-%m-%d %H:%M UTC")),
    );
    format!("{}  {}  [{}]  {end}, {used}", key.id, key.name, scopes.join(" "))
}

fn of_creation(error: CreateKeyError) -> Failure {
    match error {
        CreateKeyError::Unavailable(error) => error.into(),
        other => Failure::usage(format!("the key cannot be made: {other}"), "correct what it names"),
    }
}
