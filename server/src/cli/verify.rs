//! `daybook verify`: everything recomputed from the journal.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use ledger::ids::{AccountId, Seq};
use ledger::verify::{Problem, VerifyReport};
use serde::{Deserialize, Serialize};

use super::Common;
use super::export::hex;
use super::failure::{Exit, Failure};
use super::instance::{Instance, Schema};
use super::output::{Form, bar, grouped_count};

/// How many accounts are counted at a time, for the bar.
const COUNT_ROWS: u32 = 10_000;

/// Recompute the whole journal and name the first row that is wrong.
///
/// Every account's entries are read in order: numbers without gaps, debits equal to credits, every balance after, the
/// chain of hashes; then the stored balances, grants and holds are compared with the sums. Reads only, and may run
/// beside a busy server.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  daybook verify
  daybook verify --account ref:cust-42
  daybook verify --heads heads-2026-01-31.jsonl   # nothing before those heads was changed

Exit codes: 0 clean; 1 it could not be told; 3 broken, and the first bad row is named.")]
pub struct Args {
    /// Only this account: its id, or ref: and your own reference
    #[arg(long, value_name = "ID")]
    account: Option<String>,
    /// Compare with heads exported earlier by `daybook export --heads`
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
pub struct Verified {
    clean: bool,
    accounts: u64,
    entries: u64,
    lines: u64,
    /// Heads that were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    heads: Option<u64>,
    problems: Vec<BadRow>,
}

#[derive(Debug, Serialize)]
struct BadRow {
    account: AccountId,
    /// Absent where it is about what is stored beside the journal.
    seq: Option<Seq>,
    what: String,
}

impl From<Problem> for BadRow {
    fn from(problem: Problem) -> BadRow {
        BadRow { account: problem.account, seq: problem.seq, what: problem.what }
    }
}

impl From<VerifyReport> for Verified {
    fn from(report: VerifyReport) -> Verified {
        Verified {
            clean: report.is_clean(),
            accounts: report.accounts,
            entries: report.entries,
            lines: report.lines,
            heads: None,
            problems: report.problems.into_iter().map(BadRow::from).collect(),
        }
    }
}

impl Verified {
    pub fn is_clean(&self) -> bool {
        self.clean
    }

    pub fn in_words(&self) -> String {
        let heads = self.heads.map(|heads| format!(", {} heads", grouped_count(heads))).unwrap_or_default();
        let looked_at = format!(
            "{} accounts, {} entries, {} lines{heads}",
            grouped_count(self.accounts),
            grouped_count(self.entries),
            grouped_count(self.lines)
        );
        let Some(first) = self.problems.first() else { return format!("clean: {looked_at}") };
        let row = first.seq.map(|seq| format!(", entry {seq}")).unwrap_or_default();
        format!(
            "BROKEN: {} accounts of {looked_at}\nfirst bad row: account {}{row}: {}",
            grouped_count(self.problems.len()),
            first.account,
            first.what
        )
    }

    fn with_heads(mut self, checked: u64, problems: Vec<BadRow>) -> Verified {
        self.heads = Some(checked);
        self.clean = self.clean && problems.is_empty();
        self.problems.extend(problems);
        self
    }
}

pub async fn run(args: Args, common: &Common) -> Result<Exit, Failure> {
    let instance = Instance::open(common, Schema::Check).await?;
    let account = match &args.account {
        Some(account) => Some(instance.account(account).await?),
        None => None,
    };
    let mut verified = verify(&instance, account).await?;
    if let Some(path) = &args.heads {
        let (checked, problems) = check_heads(&instance, path, account).await?;
        verified = verified.with_heads(checked, problems);
    }
    Form::of(args.json).print(&verified, || verified.in_words())?;
    instance.close().await;
    Ok(if verified.is_clean() { Exit::Ok } else { Exit::Broken })
}

/// Verifies one account, or all with a bar.
pub async fn verify(instance: &Instance, account: Option<AccountId>) -> Result<Verified, Failure> {
    if let Some(account) = account {
        return Ok(instance.ledger.verify_account(account).await?.into());
    }
    let bar = bar("verifying accounts", count_accounts(instance).await?);
    let report = instance.ledger.verify(|report| bar.set_position(report.accounts)).await?;
    bar.finish_and_clear();
    Ok(report.into())
}

async fn count_accounts(instance: &Instance) -> Result<u64, Failure> {
    let (mut count, mut after) = (0, None);
    loop {
        let ids = instance.ledger.account_ids(after, COUNT_ROWS).await?;
        let Some(last) = ids.last() else { return Ok(count) };
        after = Some(*last);
        count += u64::try_from(ids.len()).unwrap_or(0);
    }
}

/// A line of the file.
#[derive(Deserialize)]
struct Head {
    account: AccountId,
    seq: Seq,
    hash: String,
}

async fn check_heads(
    instance: &Instance,
    path: &Path,
    only: Option<AccountId>,
) -> Result<(u64, Vec<BadRow>), Failure> {
    let unreadable = |detail: String| {
        Failure::usage(
            format!("{}: {detail}", path.display()),
            "give a file that `daybook export --heads` wrote",
        )
    };
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let (mut checked, mut problems) = (0, Vec::new());
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| unreadable(error.to_string()))?;
        let head: Head = serde_json::from_str(&line)
            .map_err(|error| unreadable(format!("line {}: {error}", index + 1)))?;
        if only.is_none_or(|only| only == head.account) {
            checked += 1;
            problems.extend(check_head(instance, &head).await?);
        }
    }
    Ok((checked, problems))
}

async fn check_head(instance: &Instance, head: &Head) -> Result<Option<BadRow>, Failure> {
    let bad = |what: &str| Some(BadRow { account: head.account, seq: Some(head.seq), what: what.to_owned() });
    if let Some(entry) = instance.ledger.entry(head.account, head.seq).await? {
        return Ok(if hex(&entry.hash) == head.hash {
            None
        } else {
            bad("its hash is not the exported one")
        });
    }
    // Of a purged account only the last hash is left; heads before it can no longer be told from it.
    Ok(match instance.ledger.tombstone(head.account).await? {
        Some((last, hash)) if last == head.seq && hex(&hash) != head.hash => {
            bad("its tombstone's hash is not the exported one")
        }
        Some((last, _)) if last < head.seq => bad("its tombstone ends before it"),
        Some(_) => None,
        None => bad("the entry is gone, and the account was not purged"),
    })
}
