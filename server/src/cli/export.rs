//! `daybook export`: the journal, or the heads of its chains, to keep elsewhere.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use ledger::entry::{Entry, Line};
use ledger::ids::{AccountId, Seq};
use ledger::service::{EntryQuery, PageRequest};
use serde_json::{Value, json};

use super::Common;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::{bar, grouped_count, json as json_line, note};

const PAGE_ROWS: u32 = 500;

/// Write the journal, or the heads of its chains, to a file or standard output.
///
/// Account by account, each account's entries in order. A head is an account's last entry number and hash: kept
/// somewhere else, it proves later that nothing before it was changed (`daybook verify --heads FILE`).
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  daybook export --out journal.jsonl
  daybook export --account ref:cust-42 --format csv > cust-42.csv
  daybook export --heads --out heads-$(date +%F).jsonl")]
pub struct Args {
    /// JSON lines have the entries' lines and texts; CSV has one row an entry
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// Only this account: its id, or ref: and your own reference
    #[arg(long, value_name = "ID")]
    account: Option<String>,
    /// The chains' heads instead of the entries
    #[arg(long, conflicts_with = "format")]
    heads: bool,
    /// The file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Jsonl,
    Csv,
}

/// Where rows go.
enum Sink {
    Jsonl(BufWriter<Box<dyn Write + Send>>),
    Csv(Box<csv::Writer<Box<dyn Write + Send>>>),
    Heads(BufWriter<Box<dyn Write + Send>>),
}

const CSV_HEADER: [&str; 24] = [
    "account",
    "seq",
    "kind",
    "amount",
    "moved",
    "available_after",
    "held_after",
    "debt_after",
    "occurred_at",
    "recorded_at",
    "effective_at",
    "actor_kind",
    "actor_id",
    "actor_role",
    "member",
    "job_id",
    "model",
    "key_ref",
    "request_ref",
    "hold",
    "reverses",
    "reason",
    "metadata",
    "hash",
];

pub async fn run(args: Args, common: &Common) -> Result<Exit, Failure> {
    let instance = Instance::open(common, Schema::Check).await?;
    let mut sink = Sink::open(&args)?;
    let (accounts, rows) = match &args.account {
        Some(account) => {
            let account = instance.account(account).await?;
            (1, write_account(&instance, account, &mut sink).await?)
        }
        None => write_all(&instance, &mut sink).await?,
    };
    sink.finish()?;
    if args.out.is_some() {
        note(&format!("{} rows of {} accounts.", grouped_count(rows), grouped_count(accounts)));
    }
    instance.close().await;
    Ok(Exit::Ok)
}

async fn write_all(instance: &Instance, sink: &mut Sink) -> Result<(u64, u64), Failure> {
    let bar = bar("exporting accounts", 0);
    let (mut accounts, mut rows, mut after) = (0, 0, None);
    loop {
        let ids = instance.ledger.account_ids(after, PAGE_ROWS).await?;
        let Some(last) = ids.last() else { break };
        after = Some(*last);
        bar.inc_length(u64::try_from(ids.len()).unwrap_or(0));
        for id in ids {
            rows += write_account(instance, id, sink).await?;
            accounts += 1;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok((accounts, rows))
}

/// How many rows that were.
async fn write_account(instance: &Instance, account: AccountId, sink: &mut Sink) -> Result<u64, Failure> {
    if matches!(sink, Sink::Heads(_)) {
        let newest = PageRequest { cursor: None, limit: 1 };
        let found = instance.ledger.entries(account, &EntryQuery::default(), &newest).await?;
        return found.rows.iter().try_fold(0, |rows, entry| sink.write(entry).map(|()| rows + 1));
    }
    let (mut rows, mut after) = (0, Seq(0));
    loop {
        let entries = instance.ledger.journal(account, after, PAGE_ROWS).await?;
        let Some(last) = entries.last() else { return Ok(rows) };
        after = last.seq;
        for entry in &entries {
            sink.write(entry)?;
            rows += 1;
        }
    }
}

impl Sink {
    fn open(args: &Args) -> Result<Sink, Failure> {
        let out: Box<dyn Write + Send> = match &args.out {
            Some(path) => Box::new(File::create(path).map_err(|error| {
                Failure::new(
                    format!("{} cannot be written: {error}", path.display()),
                    "name a file in a folder that exists and that you may write to",
                )
            })?),
            None => Box::new(io::stdout()),
        };
        match (args.heads, args.format) {
            (true, _) => Ok(Sink::Heads(BufWriter::new(out))),
            (false, Format::Jsonl) => Ok(Sink::Jsonl(BufWriter::new(out))),
            (false, Format::Csv) => {
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(CSV_HEADER).map_err(of_csv)?;
                Ok(Sink::Csv(Box::new(writer)))
            }
        }
    }

    fn write(&mut self, entry: &Entry) -> Result<(), Failure> {
        match self {
            Sink::Jsonl(out) => write_line(out, &shown(entry)),
            Sink::Heads(out) => write_line(
                out,
                &json!({"account": entry.account, "seq": entry.seq, "hash": hex(&entry.hash)}),
            ),
            Sink::Csv(out) => out.write_record(cells(entry)).map_err(of_csv),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let flushed = match self {
            Sink::Jsonl(mut out) | Sink::Heads(mut out) => out.flush(),
            Sink::Csv(mut out) => out.flush(),
        };
        flushed.map_err(|error| Failure::of_output(&error))
    }
}

fn write_line(out: &mut impl Write, value: &Value) -> Result<(), Failure> {
    let text = json_line(value)?;
    writeln!(out, "{text}").map_err(|error| Failure::of_output(&error))
}

fn of_csv(error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::of_output(&error),
        other => Failure::new(format!("a row cannot be written: {other:?}"), "report this as a bug"),
    }
}

fn shown(entry: &Entry) -> Value {
    let actor = json!({"kind": entry.actor.kind, "id": entry.actor.id, "role": entry.actor.role});
    let call = &entry.call;
    json!({
        "account": entry.account, "seq": entry.seq, "kind": entry.kind.as_str(), "amount": entry.amount, "moved": entry.moved,
        "available_after": entry.available_after, "held_after": entry.held_after, "debt_after": entry.debt_after,
        "occurred_at": entry.occurred_at, "recorded_at": entry.recorded_at, "effective_at": entry.effective_at,
        "actor": actor, "member": call.member, "job_id": call.job_id, "model": call.model, "key_ref": call.key_ref,
        "request_ref": call.request_ref, "hold": entry.hold, "reverses": entry.reverses, "reason": entry.words.reason,
        "metadata": entry.words.metadata, "hash": hex(&entry.hash), "lines": entry.lines.iter().map(shown_line).collect::<Vec<_>>(),
    })
}

fn shown_line(line: &Line) -> Value {
    json!({
        "ledger_account": line.ledger_account.as_str(), "direction": line.direction.as_str(), "amount": line.amount,
        "grant": line.grant, "debt": line.debt.as_str(), "balance_after": line.balance_after,
    })
}

fn cells(entry: &Entry) -> [String; 24] {
    let text = |text: &Option<String>| guarded(text.as_deref().unwrap_or_default());
    let time = |at: chrono::DateTime<chrono::Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    let call = &entry.call;
    let actor_kind =
        serde_json::to_value(entry.actor.kind).ok().and_then(|kind| kind.as_str().map(str::to_owned));
    [
        entry.account.to_string(),
        entry.seq.to_string(),
        entry.kind.as_str().to_owned(),
        entry.amount.to_string(),
        entry.moved.to_string(),
        entry.available_after.to_string(),
        entry.held_after.to_string(),
        entry.debt_after.to_string(),
        time(entry.occurred_at),
        time(entry.recorded_at),
        time(entry.effective_at),
        actor_kind.unwrap_or_default(),
        guarded(&entry.actor.id),
        text(&entry.actor.role),
        text(&call.member),
        text(&call.job_id),
        text(&call.model),
        text(&call.key_ref),
        text(&call.request_ref),
        entry.hold.map(|hold| hold.to_string()).unwrap_or_default(),
        entry.reverses.map(|seq| seq.to_string()).unwrap_or_default(),
        text(&entry.words.reason),
        entry
            .words
            .metadata
            .as_ref()
            .map(|metadata| Value::Object(metadata.clone()).to_string())
            .unwrap_or_default(),
        hex(&entry.hash),
    ]
}

/// Text that a spreadsheet would take for a formula gets an apostrophe; numbers are never touched.
fn guarded(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { format!("'{text}") } else { text.to_owned() }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_guarded_and_other_text_is_not() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\tx"] {
            assert_eq!(guarded(text), format!("'{text}"));
        }
        assert_eq!(guarded("a=b"), "a=b");
        assert_eq!(guarded(""), "");
    }

    #[test]
    fn hashes_are_written_in_lower_case_hexadecimals() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
