//! `daybook serve`: the server with its workers, from a cold start to a drained stop.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::SecondsFormat;
use ledger::Ledger;
use server::config::{Config, Flags};
use server::state::{AppState, machine_now};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::failure::{Exit, Failure};
use super::instance::{self, Database, Instance, Schema};
use super::output::{line, note};
use super::{Common, demo, signals};
use crate::demo::ClockAfter;

/// Running requests get this long after a signal.
const DRAIN: Duration = Duration::from_secs(10);
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Accounts of one sweep; the next begins at once where this was not enough.
const SWEEP_ACCOUNTS: u32 = 500;

/// Serve the HTTP API and the web pages.
///
/// Starts a private Postgres where DATABASE_URL is not set, brings the schema up to date, and sweeps what falls due
/// every minute. Ctrl-C or a termination signal stops it: running requests are answered first, within 10 seconds.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  daybook serve
  daybook serve --addr 0.0.0.0:8080 --demo-if-empty
  daybook serve --test-clock          # a rehearsal: PUT /v1/test-clock sets the time

RUST_LOG sets what is logged, as in RUST_LOG=debug or RUST_LOG=ledger=trace,info.")]
pub struct Args {
    /// Where to listen [default: the configuration's site-addr, 127.0.0.1:3000]
    #[arg(long, value_name = "ADDRESS:PORT")]
    addr: Option<SocketAddr>,
    /// A rehearsal instance: time stands still until it is set, and every page says so
    #[arg(long)]
    test_clock: bool,
    /// Load demo data first if the database is empty, and print its logins once
    #[arg(long)]
    demo_if_empty: bool,
    /// How log lines look
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

pub async fn run(args: Args, common: &Common) -> Result<Exit, Failure> {
    log(args.log_format);
    let flags = Flags { site_addr: args.addr, test_clock: args.test_clock, ..Flags::default() };
    let config = instance::load_config(common, flags)?;
    // The port comes first: a second start on it should say so before it touches anything.
    let listener = listen(config.leptos.site_addr).await?;
    let drains = AtomicBool::new(false);
    // One listener for signals, and a state that stays: a signal that comes while the server is being put together
    // is not lost.
    let (ask, asked) = watch::channel(false);
    tokio::select! {
        served = Box::pin(start_and_serve(args, config, listener, &drains, asked)) => served,
        () = impatient(&drains, &ask) => Err(Failure::interrupted()),
    }
}

/// A second signal, or one while starting, ends the program without waiting.
async fn impatient(drains: &AtomicBool, ask: &watch::Sender<bool>) {
    signals::stop().await;
    ask.send_replace(true);
    if !drains.load(Ordering::Relaxed) {
        return;
    }
    tokio::select! {
        () = signals::stop() => {}
        () = tokio::time::sleep(DRAIN + Duration::from_secs(5)) => {}
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::new(
            format!("cannot listen on {address}: {error}"),
            "stop what uses the port, or choose another with --addr 127.0.0.1:PORT",
        )
    })
}

async fn start_and_serve(
    args: Args,
    config: Config,
    listener: TcpListener,
    drains: &AtomicBool,
    asked: watch::Receiver<bool>,
) -> Result<Exit, Failure> {
    let database = instance::with_config(config).await?;
    watch_postgres(&database);
    let instance = Instance::of(database, Schema::Migrate).await?;
    check_clock(&instance, args.demo_if_empty).await?;
    if args.demo_if_empty {
        let clock_after = if args.test_clock { ClockAfter::Standing } else { ClockAfter::Running };
        demo::load_if_empty(&instance, clock_after, demo::Shown::Words).await?;
    }
    set_clock(&instance).await?;
    let address = listener.local_addr().map_err(|error| Failure::new(error.to_string(), "start it again"))?;
    // From here on a signal is answered by draining.
    drains.store(true, Ordering::Relaxed);
    line(&format!("Daybook serves http://{address}"))?;
    let served = serve(&instance, listener, asked).await;
    instance.close().await;
    served?;
    Ok(Exit::Ok)
}

async fn serve(
    instance: &Instance,
    listener: TcpListener,
    asked: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let state =
        AppState::new(instance.database.config.clone(), instance.pool.clone(), instance.ledger.clone());
    let (stop, stopped) = watch::channel(false);
    let sweeper = tokio::spawn(sweep(instance.ledger.clone(), stopped.clone()));
    let shutdown = until(stopped.clone());
    let running = tokio::spawn(server::serve::run(state, listener, shutdown));
    tokio::pin!(running);
    let ended = tokio::select! {
        ended = &mut running => Some(ended),
        () = until(asked) => None,
    };
    stop.send_replace(true);
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            note("Stopping: running requests are answered first.");
            tokio::time::timeout(DRAIN, &mut running).await
        }
    };
    drop(tokio::time::timeout(Duration::from_secs(1), sweeper).await);
    match ended {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => {
            Err(Failure::new(format!("the server ended: {error}"), "see the log above; then start it again"))
        }
        Ok(Err(error)) => {
            Err(Failure::new(format!("the server ended: {error}"), "see the log above; then start it again"))
        }
        Err(_) => {
            tracing::warn!(
                serve.drain_s = DRAIN.as_secs(),
                "some requests were still running and were cut off"
            );
            Ok(())
        }
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone means the same.
    drop(stopped.wait_for(|stop| *stop).await);
}

/// Writes what fell due, every minute. A failed sweep is tried again with the next one; nothing waits for it.
async fn sweep(ledger: Ledger, stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = until(stopped);
    tokio::pin!(end);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut end => return,
        }
        sweep_once(&ledger).await;
        if let Err(error) = ledger.forget_addresses().await {
            tracing::warn!(error.message = %error, "old source addresses could not be deleted; the next sweep will try again");
        }
    }
}

async fn sweep_once(ledger: &Ledger) {
    loop {
        match ledger.sweep(SWEEP_ACCOUNTS).await {
            Ok(swept) if swept >= u64::from(SWEEP_ACCOUNTS) => {}
            Ok(swept) => {
                tracing::debug!(sweep.accounts = swept, "swept what fell due");
                return;
            }
            Err(error) => {
                tracing::warn!(error.message = %error, "the sweep failed; the next one will try again");
                return;
            }
        }
    }
}

/// An ordinary server on a rehearsal's database would decide everything at one instant.
async fn check_clock(instance: &Instance, demo_follows: bool) -> Result<(), Failure> {
    let standing = instance.ledger.test_clock().await?;
    match standing {
        // Loading demo data was interrupted; loading it again takes the clock away.
        Some(_) if demo_follows => Ok(()),
        Some(at) if !instance.database.config.test_clock => Err(Failure::new(
            format!(
                "this database belongs to a rehearsal: its clock stands at {}",
                at.to_rfc3339_opts(SecondsFormat::Secs, true)
            ),
            "serve it with --test-clock, or use another database",
        )),
        _ => Ok(()),
    }
}

async fn set_clock(instance: &Instance) -> Result<(), Failure> {
    match (instance.database.config.test_clock, instance.ledger.test_clock().await?) {
        (true, None) => {
            instance.ledger.set_test_clock(machine_now()).await?;
        }
        // A loaded demo that was whole before: the rehearsal's clock is still there.
        (false, Some(_)) => check_clock(instance, false).await?,
        _ => {}
    }
    Ok(())
}

fn watch_postgres(database: &Database) {
    use daybook_postgres::WatchEvent;
    let Some(running) = &database.postgres else { return };
    running.watch(|event| match event {
        WatchEvent::Died => tracing::warn!("the private Postgres died; starting it again"),
        WatchEvent::Restarted => tracing::info!("the private Postgres runs again"),
        WatchEvent::RestartFailed(reason) => {
            tracing::error!(error.message = %reason, "the private Postgres cannot be started again");
        }
    });
}

fn log(format: LogFormat) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,sqlx=warn"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let set = match format {
        LogFormat::Text => tracing::subscriber::set_global_default(builder.with_target(false).finish()),
        LogFormat::Json => {
            tracing::subscriber::set_global_default(builder.json().flatten_event(true).finish())
        }
    };
    // Somebody set one before: theirs is as good.
    drop(set);
}
