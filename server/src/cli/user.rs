//! `daybook user`: the people who may sign in.

use std::io::Read;

use backoffice::access::{CreateUserError, NewPassword, NewUser, Role, User};
use serde_json::json;

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::Form;

/// Longer input is no password.
const PASSWORD_INPUT_MAX: u64 = 4 * 1024;

#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Add a person; prints a generated password once
    #[command(after_help = "Examples:
  daybook user add ana@example.org --role customer --account ref:cust-42
  daybook user add sam@example.org --role support
  printf %s \"$PASSWORD\" | daybook user add fin@example.org --role finance --password-stdin")]
    Add(Add),
    /// Give a person a new password; prints it once
    Password(Password),
    /// Keep a person from signing in, and end their sessions
    Disable(Name),
    /// Let a disabled person sign in again
    Enable(Name),
}

#[derive(clap::Args, Debug)]
pub struct Add {
    email: String,
    #[arg(long, value_parser = parse_role)]
    role: Role,
    /// An account they may see: its id, or ref: and your own reference. May be given again
    #[arg(long = "account", value_name = "ID")]
    accounts: Vec<String>,
    /// Read the password from standard input instead of making one
    #[arg(long)]
    password_stdin: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub struct Password {
    email: String,
    /// Read the password from standard input instead of making one
    #[arg(long)]
    password_stdin: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub struct Name {
    email: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| "one of customer, support, finance, admin".to_owned())
}

pub async fn run(command: Command, common: &Common) -> Result<Exit, Failure> {
    let instance = Instance::open(common, Schema::Check).await?;
    match command {
        Command::Add(args) => add(args, &instance).await?,
        Command::Password(args) => set_password(args, &instance).await?,
        Command::Disable(args) => set_disabled(args, &instance, true).await?,
        Command::Enable(args) => set_disabled(args, &instance, false).await?,
    }
    instance.close().await;
    Ok(Exit::Ok)
}

async fn add(args: Add, instance: &Instance) -> Result<(), Failure> {
    if args.role == Role::Customer && args.accounts.is_empty() {
        return Err(Failure::usage(
            "a customer without an account would see nothing",
            "name one: --account ID or --account ref:REFERENCE",
        ));
    }
    let mut accounts = Vec::with_capacity(args.accounts.len());
    for account in &args.accounts {
        accounts.push(instance.account(account).await?);
    }
    let password = password(args.password_stdin)?;
    let now = server::state::machine_now();
    let new = NewUser { email: args.email, role: args.role, accounts, password };
    let created = instance.access.create_user(new, now).await.map_err(of_creation)?;
    print_user(&created.user, created.generated_password.as_deref(), args.json)
}

async fn set_password(args: Password, instance: &Instance) -> Result<(), Failure> {
    let user = instance.user(&args.email).await?;
    let password = password(args.password_stdin)?;
    let generated = instance.access.set_password(user.id, password).await.map_err(of_creation)?;
    print_user(&user, generated.as_deref(), args.json)
}

async fn set_disabled(args: Name, instance: &Instance, disabled: bool) -> Result<(), Failure> {
    let user = instance.user(&args.email).await?;
    let now = server::state::machine_now();
    instance.access.set_disabled(user.id, disabled, now).await?;
    let state = if disabled { "may no longer sign in" } else { "may sign in" };
    Form::of(args.json).print(&json!({"id": user.id, "email": user.email, "disabled": disabled}), || {
        format!("{} {state}.", user.email)
    })
}

fn print_user(user: &User, password: Option<&str>, json: bool) -> Result<(), Failure> {
    let object = json!({
        "id": user.id, "email": user.email, "role": user.role, "accounts": user.accounts, "password": password,
    });
    Form::of(json).print(&object, || match password {
        Some(password) => {
            format!("{} ({})\npassword, shown this once: {password}", user.email, user.role.as_str())
        }
        None => format!("{} ({})", user.email, user.role.as_str()),
    })
}

fn password(from_stdin: bool) -> Result<NewPassword, Failure> {
    if !from_stdin {
        return Ok(NewPassword::Generated);
    }
    let mut text = String::new();
    std::io::stdin().lock().take(PASSWORD_INPUT_MAX).read_to_string(&mut text).map_err(|error| {
        Failure::usage(
            format!("no password came over standard input: {error}"),
            "pipe it in, as in: printf %s \"$PASSWORD\" | daybook …",
        )
    })?;
    // The line end belongs to the pipe, not to the password.
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(NewPassword::Given(text.strip_suffix('\r').unwrap_or(text).to_owned()))
}

fn of_creation(error: CreateUserError) -> Failure {
    match error {
        CreateUserError::EmailTaken => Failure::new(
            "there is a user with this e-mail",
            "use another, or `daybook user password` for a new password",
        ),
        CreateUserError::BadEmail => {
            Failure::usage("this is no e-mail address", "give one such as ana@example.org")
        }
        CreateUserError::Password(fault) => Failure::usage(
            format!("the password is not taken: {fault}"),
            "choose one of 12 to 256 characters that is not a common one",
        ),
        CreateUserError::Unavailable(error) => error.into(),
    }
}
