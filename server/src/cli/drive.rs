//! `daybook drive`: a service's work on a real trace, and whether the sum is right.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backoffice::access::{CreateUserError, NewKey, NewPassword, NewUser, Role, Scope, User};
use backoffice::metering::{ModelPrice, PriceError, Rate, RateCard};
use indicatif::ProgressBar;
use ledger::Credits;
use rust_decimal::Decimal;
use serde::Serialize;
use server::config::Flags;
use server::state::{AppState, machine_now};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::failure::{Exit, Failure};
use super::instance::{self, Instance, Schema};
use super::output::{Form, bar, grouped, grouped_count};
use super::verify::{self, Verified};
use super::{Common, export};
use crate::drive::{self, DriveError, Faults, Outcome, Plan, Progress, Run, Tally, Target, Terms};

/// The user who owns the temporary keys of runs against our own database.
const OWNER_EMAIL: &str = "drive@daybook.invalid";
const KEY_HOURS: i64 = 12;
/// A hold is the expected price times this, as in the default policy.
const ESTIMATE_FACTOR: Decimal = Decimal::from_parts(12, 0, 0, false, 1);
const PRICES_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Send a trace of real calls through the HTTP API and check the sum.
///
/// Each call places a hold on the estimate, (context × input price + max tokens × output price) × 1.2, and settles the
/// true price. Prices are exact decimals; each call's price in credits is rounded once, to 6 places. With faults, some
/// calls break off (half the output is settled), some time out (reversed, outcome unknown), and some are sent again with
/// the same key. At the end the journal's sum is compared with the sum worked out beforehand.
///
/// Without --url it serves the configured database inside this process, on a free port, with a key of its own.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  daybook drive --trace samples/trace.csv --prices samples/model-prices.json --model sample-small --accounts 5
  daybook drive --trace trace.csv --prices prices.json --model gpt-4o-mini --faults none --json
  daybook drive … --run-id 3f9a01c2      # go on with a run, or repeat it: everything is a replay
  DAYBOOK_KEY=dbk_… daybook drive … --url https://credits.example.org

The key needs the scopes accounts:write, read, usage:write and grants:write.

Exit codes: 0 both sums agree and the journal verifies; 1 failed; 2 usage; 3 the sums differ or the journal is broken.")]
pub struct Args {
    /// CSV with the columns TIMESTAMP, ContextTokens, GeneratedTokens
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// A price map in LiteLLM's format: JSON, dollars per token by model
    #[arg(long, value_name = "FILE")]
    prices: PathBuf,
    /// The model to price calls by
    #[arg(long)]
    model: String,
    /// What a dollar is worth
    #[arg(long, default_value = "1000", value_name = "CREDITS", value_parser = parse_rate)]
    credits_per_dollar: Decimal,
    /// Output tokens that a hold is placed for
    #[arg(long, default_value_t = 100, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    max_tokens: u64,
    /// Accounts that the calls are spread over; the first is the demo customer's
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=9999))]
    accounts: u16,
    /// Decides which calls go wrong
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Whether calls go wrong
    #[arg(long, value_enum, default_value = "some")]
    faults: Faults,
    /// A server elsewhere
    #[arg(long, requires = "key")]
    url: Option<String>,
    /// Its API key
    #[arg(long, env = "DAYBOOK_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Calls that are under way at one time
    #[arg(long, default_value_t = 32, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=512))]
    concurrency: u16,
    /// The name of the run; the same name again repeats its keys [default: a random one]
    #[arg(long, value_name = "NAME", value_parser = parse_run_id)]
    run_id: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_rate(text: &str) -> Result<Decimal, String> {
    let rate = Credits::parse(text).map_err(|error| error.to_string())?;
    if rate.is_negative() { Err("is below zero".to_owned()) } else { Ok(rate.decimal()) }
}

fn parse_run_id(text: &str) -> Result<String, String> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_good = (1..=40).contains(&text.len()) && text.bytes().all(is_taken);
    if is_good { Ok(text.to_owned()) } else { Err("1 to 40 letters, digits, - and _".to_owned()) }
}

/// The result of a run.
#[derive(Serialize)]
struct Report {
    run_id: String,
    seed: u64,
    faults: &'static str,
    calls: usize,
    accounts: usize,
    above_hold: usize,
    broken_off: usize,
    timed_out: usize,
    sent_again: usize,
    requests: u64,
    replays: u64,
    settles: u64,
    credits_used: Credits,
    credits_expected: Credits,
    sums_agree: bool,
    entries_read: u64,
    /// The first thing in the journal, as read back over HTTP, that does not hang together.
    fault: Option<String>,
    /// The whole run, reading back and verifying included.
    took_ms: u64,
    /// Of our own database; absent for a server elsewhere.
    verify: Option<Verified>,
}

impl Report {
    fn is_clean(&self) -> bool {
        self.sums_agree && self.fault.is_none() && self.verify.as_ref().is_none_or(Verified::is_clean)
    }
}

/// Everything that is known before the first request.
struct Prepared {
    plan: Plan,
    terms: Terms,
    run: Run,
    threads: usize,
}

pub async fn run(args: Args, common: &Common) -> Result<Exit, Failure> {
    let prepared = Arc::new(prepare(&args)?);
    let began = Instant::now();
    let (outcome, verified) = match (&args.url, &args.key) {
        (Some(url), Some(key)) => {
            let target =
                Target { url: url.trim_end_matches('/').to_owned(), key: key.clone(), is_local: false };
            (send(Arc::clone(&prepared), target).await?, None)
        }
        _ => {
            let (outcome, verified) = run_here(&prepared, common).await?;
            (outcome, Some(verified))
        }
    };
    let report = report(&prepared, outcome, verified, &args, began.elapsed())?;
    Form::of(args.json).print(&report, || in_words(&report))?;
    Ok(if report.is_clean() { Exit::Ok } else { Exit::Broken })
}

fn prepare(args: &Args) -> Result<Prepared, Failure> {
    let calls = drive::read_trace(open(&args.trace)?).map_err(|error| {
        Failure::usage(
            format!("{}: {error}", args.trace.display()),
            "give a CSV with the columns TIMESTAMP, ContextTokens, GeneratedTokens",
        )
    })?;
    let terms = Terms {
        price: read_price(&args.prices, &args.model)?,
        rate: Rate { credits_per_dollar: args.credits_per_dollar, multiplier: Decimal::ONE },
        estimate_factor: ESTIMATE_FACTOR,
        tokens_max: args.max_tokens,
        accounts: usize::from(args.accounts),
        seed: args.seed,
        faults: args.faults,
    };
    let plan = Plan::make(&calls, &terms).map_err(|error| of_price(error, &args.model))?;
    let id = args.run_id.clone().map_or_else(random_id, Ok)?;
    let run = Run { id, seed: args.seed, model: args.model.clone() };
    Ok(Prepared { plan, terms, run, threads: usize::from(args.concurrency) })
}

fn open(path: &Path) -> Result<std::fs::File, Failure> {
    std::fs::File::open(path).map_err(|error| {
        Failure::usage(format!("{} cannot be read: {error}", path.display()), "name a file that exists")
    })
}

fn read_price(path: &Path, model: &str) -> Result<ModelPrice, Failure> {
    use std::io::Read;
    let mut text = String::new();
    open(path)?.take(PRICES_BYTES_MAX).read_to_string(&mut text).map_err(|error| {
        Failure::usage(
            format!("{} cannot be read: {error}", path.display()),
            "name a price map: JSON in UTF-8",
        )
    })?;
    let card = RateCard::parse(&text).map_err(|error| {
        Failure::usage(
            format!("{}: {error}", path.display()),
            "give a JSON object of models with input_cost_per_token and output_cost_per_token",
        )
    })?;
    if let Some(price) = card.models.get(model) {
        return Ok(*price);
    }
    if let Some(skipped) = card.skipped.iter().find(|skipped| skipped.model == model) {
        return Err(Failure::usage(
            format!("{model} cannot price a call: {}", skipped.reason),
            "choose a model that is priced by the token",
        ));
    }
    let like = card.like(model, 3);
    let remedy = if like.is_empty() {
        "choose a name that the price map has".to_owned()
    } else {
        format!("did you mean {}?", like.join(" or "))
    };
    Err(Failure::usage(format!("the price map has no model {model}"), remedy))
}

fn of_price(error: PriceError, model: &str) -> Failure {
    match error {
        PriceError::NoPrice(_) => {
            Failure::usage(format!("{model}: {error}"), "choose a model that prices both input and output")
        }
        PriceError::TooLong => {
            Failure::usage(error.to_string(), "choose --credits-per-dollar with fewer digits")
        }
    }
}

fn random_id() -> Result<String, Failure> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(format!("no random name can be made: {error}"), "give one with --run-id")
    })?;
    Ok(export::hex(&bytes))
}

/// Serves our own database inside this process, sends everything through it, and verifies.
async fn run_here(prepared: &Arc<Prepared>, common: &Common) -> Result<(Outcome, Verified), Failure> {
    let config = instance::load_config(common, Flags::default())?;
    let instance = Instance::of(instance::with_config(config).await?, Schema::Migrate).await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| of_port(&error))?;
    let address = listener.local_addr().map_err(|error| of_port(&error))?;
    let owner = owner(&instance).await?;
    let (key_id, key) = temporary_key(&instance, &owner).await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut config = instance.database.config.clone();
    config.http.metrics_address = None;
    let state = AppState::new(config, instance.pool.clone(), instance.ledger.clone());
    let server = tokio::spawn(server::serve::run(state, listener, async { drop(stopped.await) }));
    let target = Target { url: format!("http://{address}"), key, is_local: true };
    let outcome = send(Arc::clone(prepared), target).await;
    // A server that has ended by itself needs no telling.
    let _ = stop.send(());
    drop(tokio::time::timeout(Duration::from_secs(10), server).await);
    instance.access.revoke_key(&key_id, machine_now()).await?;
    instance.access.set_disabled(owner.id, true, machine_now()).await?;
    let outcome = outcome?;
    let verified = verify::verify(&instance, None).await?;
    instance.close().await;
    Ok((outcome, verified))
}

fn of_port(error: &std::io::Error) -> Failure {
    Failure::new(
        format!("no port can be had on 127.0.0.1: {error}"),
        "see what uses them all, or give --url and --key",
    )
}

/// The owner of temporary keys: a user nobody can sign in as, and who is disabled between runs.
async fn owner(instance: &Instance) -> Result<User, Failure> {
    let new = NewUser {
        email: OWNER_EMAIL.to_owned(),
        role: Role::Admin,
        accounts: Vec::new(),
        password: NewPassword::Generated,
    };
    match instance.access.create_user(new, machine_now()).await {
        Ok(created) => Ok(created.user),
        Err(CreateUserError::EmailTaken) => {
            let user = instance.user(OWNER_EMAIL).await?;
            instance.access.set_disabled(user.id, false, machine_now()).await?;
            Ok(user)
        }
        Err(CreateUserError::Unavailable(error)) => Err(error.into()),
        Err(error) => Err(Failure::new(
            format!("no owner for the run's key can be made: {error}"),
            "give --url and --key",
        )),
    }
}

async fn temporary_key(instance: &Instance, owner: &User) -> Result<(String, String), Failure> {
    let now = machine_now();
    let new = NewKey {
        name: "drive".to_owned(),
        owner: owner.id,
        scopes: vec![Scope::AccountsWrite, Scope::Read, Scope::UsageWrite, Scope::GrantsWrite],
        expires_at: Some(now + chrono::Duration::hours(KEY_HOURS)),
    };
    let created = instance.access.create_key(new, now).await;
    let created = created.map_err(|error| {
        Failure::new(format!("no key for the run can be made: {error}"), "give --url and --key")
    })?;
    Ok((created.key.id, created.bearer))
}

/// Ends the threads of a run whose command was interrupted.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn send(prepared: Arc<Prepared>, target: Target) -> Result<Outcome, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let _guard = StopOnDrop(Arc::clone(&stop));
    let sent = tokio::task::spawn_blocking(move || {
        let Prepared { plan, terms, run, threads } = &*prepared;
        drive::run(plan, terms, run, &target, *threads, &stop, &Bars::default())
            .map_err(|error| of_drive(&error, &run.id))
    });
    sent.await.map_err(|error| Failure::new(format!("the run broke off: {error}"), "report this as a bug"))?
}

fn of_drive(error: &DriveError, run_id: &str) -> Failure {
    if error.is_stopped() {
        return Failure::interrupted();
    }
    Failure::new(
        format!("run {run_id}: {error}"),
        format!("see to what it names; --run-id {run_id} goes on where this run ended"),
    )
}

/// A bar for each part of a run.
#[derive(Default)]
struct Bars(std::sync::Mutex<Option<ProgressBar>>);

impl Progress for Bars {
    fn begin(&self, what: &'static str, steps: usize) {
        if let Ok(mut current) = self.0.lock() {
            let next = bar(what, u64::try_from(steps).unwrap_or(0));
            if let Some(done) = current.replace(next) {
                done.finish();
            }
        }
    }

    fn step(&self) {
        if let Ok(current) = self.0.lock() {
            current.iter().for_each(|bar| bar.inc(1));
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        if let Ok(mut current) = self.0.lock() {
            current.take().iter().for_each(ProgressBar::finish);
        }
    }
}

fn report(
    prepared: &Prepared,
    outcome: Outcome,
    verify: Option<Verified>,
    args: &Args,
    took: Duration,
) -> Result<Report, Failure> {
    let Tally { above_hold, broken_off, timed_out, sent_again } = prepared.plan.tally();
    let credits = |sum| {
        Credits::exact(sum).map_err(|error| Failure::new(format!("a sum {error}"), "report this as a bug"))
    };
    Ok(Report {
        run_id: prepared.run.id.clone(),
        seed: args.seed,
        faults: if args.faults == Faults::Some { "some" } else { "none" },
        calls: prepared.plan.calls.len(),
        accounts: prepared.terms.accounts,
        above_hold,
        broken_off,
        timed_out,
        sent_again,
        requests: outcome.requests,
        replays: outcome.replays,
        settles: outcome.settles,
        credits_used: credits(outcome.used)?,
        credits_expected: credits(prepared.plan.expected)?,
        sums_agree: outcome.used == prepared.plan.expected,
        entries_read: outcome.entries,
        fault: outcome.fault,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        verify,
    })
}

fn in_words(report: &Report) -> String {
    let count = |count: usize| grouped_count(count);
    let agree = if report.sums_agree { "both sums agree to the last millionth" } else { "THE SUMS DIFFER" };
    let journal = report.fault.as_ref().map_or_else(
        || format!("{} entries read back over HTTP, all hang together", grouped_count(report.entries_read)),
        |fault| format!("BROKEN, as read back over HTTP: {fault}"),
    );
    let verify = report.verify.as_ref().map_or_else(
        || "not run: the server is elsewhere; run `daybook verify` there".to_owned(),
        Verified::in_words,
    );
    format!(
        "run            {} (seed {}, faults {})\n\
         calls          {} on {} accounts, {} settled above their hold\n\
         faults         {} broke off, {} timed out, {} sent again; {} answers were replays\n\
         credits used   {} (the ledger's sum of {} settles)\n\
         expected       {}: {agree}\n\
         journal        {journal}\n\
         verify         {verify}",
        report.run_id,
        report.seed,
        report.faults,
        count(report.calls),
        count(report.accounts),
        count(report.above_hold),
        count(report.broken_off),
        count(report.timed_out),
        count(report.sent_again),
        grouped_count(report.replays),
        grouped(report.credits_used.decimal()),
        grouped_count(report.settles),
        grouped(report.credits_expected.decimal()),
    )
}
