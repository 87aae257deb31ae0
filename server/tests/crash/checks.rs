//! The journals of the clients against the database.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use ledger::command::key_digest;

use crate::client::Client;
use crate::journal::{Accepted, Outcome, Record};
use crate::operation::{AccountRef, Act, Micros, Span, micros, text};
use crate::site::Site;

/// Holds that were to end by themselves have done so after this.
const SHORT_HOLDS_END: Duration = Duration::from_millis(1_500);

/// What a run came to.
#[derive(Debug, Default)]
pub struct Report {
    pub operations: usize,
    pub accepted: usize,
    pub refused: usize,
    pub unknown: usize,
    /// Answers of 500.
    pub internal: usize,
    pub not_now: usize,
    pub violations: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { operations, accepted, refused, unknown, internal, not_now, violations } = self;
        write!(
            f,
            "operations {operations}, acknowledged {accepted}, refused {refused}, unknown at first {unknown}, "
        )?;
        write!(f, "told to wait {not_now}, answered 500 {internal}, ")?;
        write!(f, "violations {}", violations.len())
    }
}

/// An entry that carries a key, as the database has it.
struct Stored {
    seq: i64,
    hash: String,
}

/// The database's side.
struct Books {
    ids: BTreeMap<String, String>,
    /// By account id and key digest.
    keyed: BTreeMap<(String, String), Vec<Stored>>,
    /// How many charges, holds and settles carry a `request_ref`, by account id and that.
    named: BTreeMap<(String, String), usize>,
}

impl Books {
    fn read(site: &Site) -> Books {
        let refs = site.sql("select external_ref, account_id from account_refs");
        let ids = rows(&refs).map(|row| (row[0].to_owned(), row[1].to_owned())).collect();
        let mut books = Books { ids, keyed: BTreeMap::new(), named: BTreeMap::new() };
        let keyed = site.sql(
            "select account_id, encode(key, 'hex'), seq, encode(hash, 'hex') from entries where key is not null",
        );
        for row in rows(&keyed) {
            let stored = Stored { seq: row[2].parse().expect("seq is a number"), hash: row[3].to_owned() };
            books.keyed.entry((row[0].to_owned(), row[1].to_owned())).or_default().push(stored);
        }
        // CONSUME, AUTH_HOLD, SETTLE.
        let named = site.sql(
            "select account_id, request_ref from entries where request_ref is not null and kind in (2, 3, 4)",
        );
        for row in rows(&named) {
            *books.named.entry((row[0].to_owned(), row[1].to_owned())).or_default() += 1;
        }
        books
    }
}

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.is_empty()).map(|line| line.split('|').collect())
}

/// Checks everything once all outcomes are known. `server` is one that answers.
pub fn check(site: &Site, server: &str, records: &[Record]) -> Report {
    sleep(SHORT_HOLDS_END);
    let mut report = counts(records);
    let found = &mut report.violations;
    for record in records {
        found.extend(of_answers(record).into_iter().map(|what| about(record, &what)));
    }
    let books = Books::read(site);
    for record in records {
        found.extend(of_presence(record, &books).into_iter().map(|what| about(record, &what)));
    }
    found.extend(of_strangers(records, &books));
    found.extend(of_running_balances(records));
    found.extend(of_balances(site, server, records));
    found.extend(of_names(site, server, records));
    found.extend(site.verify());
    report
}

fn about(record: &Record, what: &str) -> String {
    format!("{} {:?} {:?}: {what}", record.operation.key, record.operation.account, record.operation.act)
}

fn counts(records: &[Record]) -> Report {
    let many = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count();
    Report {
        operations: records.len(),
        accepted: many(|record| record.accepted().is_some()),
        refused: many(|record| matches!(record.outcome, Outcome::Refused(_))),
        unknown: many(Record::was_unknown),
        internal: records
            .iter()
            .flat_map(|record| &record.unclear)
            .filter(|what| what.starts_with("500"))
            .count(),
        not_now: records.iter().map(|record| record.not_now.len()).sum(),
        violations: Vec::new(),
    }
}

/// What the answers say by themselves.
fn of_answers(record: &Record) -> Vec<String> {
    let mut found = record.faults.clone();
    let asked = &record.operation;
    match (&record.outcome, asked.must_be_refused) {
        (Outcome::Pending, _) => found.push("was never decided".to_owned()),
        (Outcome::Accepted(_), Some(name)) => found.push(format!("should have been refused as {name}")),
        (Outcome::Refused(name), Some(must)) if name != must => {
            found.push(format!("refused as {name}, not {must}"));
        }
        (Outcome::Refused(name), None) if !is_plain_refusal(name) => found.push(format!("refused as {name}")),
        (Outcome::Accepted(accepted), None) => found.extend(of_acceptance(record, accepted)),
        (Outcome::Refused(_), _) => {}
    }
    found
}

fn of_acceptance(record: &Record, accepted: &Accepted) -> Vec<String> {
    let mut found = Vec::new();
    let asked = &record.operation;
    if accepted.kind != asked.kind() || accepted.amount != asked.effect() {
        found.push(format!("answered with {} of {}", accepted.kind, text(accepted.amount)));
    }
    if let Act::Hold { amount, .. } = asked.act
        && accepted.moved != amount
    {
        found.push(format!("{} were set aside", text(accepted.moved)));
    }
    match record.fresh {
        // Also where the server had to run its round again: the caller sees one answer, and it is the first.
        0 if !record.was_unknown() => {
            found.push(format!("its first answer is a replay; told to wait: {:?}", record.not_now));
        }
        // Two servers that lose the same commit may both take it for theirs.
        fresh if fresh <= record.at_once => {}
        more => found.push(format!("acknowledged {more} times as new")),
    }
    found
}

/// Poor accounts run out, and holds that end by themselves cannot be released.
fn is_plain_refusal(name: &str) -> bool {
    matches!(name, "insufficient_credits" | "hold_ended")
}

/// Acknowledged: exactly once, and as it was answered. Refused: not at all.
fn of_presence(record: &Record, books: &Books) -> Vec<String> {
    let operation = &record.operation;
    let id = books.ids.get(&operation.account.0).cloned().unwrap_or_default();
    let digest: String = key_digest(&operation.key).iter().map(|byte| format!("{byte:02x}")).collect();
    let stored = books.keyed.get(&(id.clone(), digest)).map_or(&[][..], Vec::as_slice);
    let named = books.named.get(&(id, operation.key.clone())).copied().unwrap_or(0);
    let mut found = Vec::new();
    match (&record.outcome, stored) {
        (Outcome::Accepted(accepted), [one]) if one.seq == accepted.seq && one.hash == accepted.hash => {}
        (Outcome::Accepted(accepted), [one]) => {
            found.push(format!(
                "answered as entry {}, stored as entry {} with hash {}",
                accepted.seq, one.seq, one.hash
            ));
        }
        (Outcome::Accepted(_), stored) => {
            found.push(format!("acknowledged, and stored {} times", stored.len()));
        }
        (Outcome::Refused(_), []) => {}
        (Outcome::Refused(name), _) => found.push(format!("refused as {name}, and stored")),
        (Outcome::Pending, _) => {}
    }
    let expected = usize::from(record.accepted().is_some() && operation.is_named());
    if named != expected {
        found.push(format!("{named} entries name its request, instead of {expected}"));
    }
    found
}

/// Entries under keys that no client had an acknowledgement for.
fn of_strangers(records: &[Record], books: &Books) -> Vec<String> {
    let accepted = records.iter().filter(|record| record.accepted().is_some()).count();
    let stored: usize = books.keyed.values().map(Vec::len).sum();
    if stored == accepted {
        Vec::new()
    } else {
        vec![format!("{stored} entries carry keys, {accepted} were acknowledged")]
    }
}

fn accepted_by_account(records: &[Record]) -> BTreeMap<&AccountRef, Vec<(&Record, &Accepted)>> {
    let mut accounts: BTreeMap<&AccountRef, Vec<(&Record, &Accepted)>> = BTreeMap::new();
    for record in records {
        if let Some(accepted) = record.accepted() {
            accounts.entry(&record.operation.account).or_default().push((record, accepted));
        }
    }
    accounts
}

/// In the order of the journal, each answer's balance is the sum of all requests up to it.
fn of_running_balances(records: &[Record]) -> Vec<String> {
    let mut found = Vec::new();
    for (account, mut accepted) in accepted_by_account(records) {
        accepted.sort_by_key(|(_, accepted)| accepted.seq);
        let mut sum: Micros = 0;
        for (record, accepted) in accepted {
            sum += record.operation.effect();
            if sum != accepted.balance_after {
                let said = text(accepted.balance_after);
                found.push(about(
                    record,
                    &format!("answered with a balance of {said}, the sum of {account:?} is {}", text(sum)),
                ));
                break;
            }
        }
    }
    found
}

/// What the clients' own sums say of an account at the end.
fn expected(accepted: &[(&Record, &Accepted)]) -> (Micros, Micros) {
    let balance = accepted.iter().map(|(record, _)| record.operation.effect()).sum();
    let placed = accepted.iter().filter_map(|(record, accepted)| match record.operation.act {
        Act::Hold { amount, span: Span::Long } => Some((accepted.hold.clone().unwrap_or_default(), amount)),
        _ => None,
    });
    let ended = accepted.iter().filter_map(|(record, _)| match &record.operation.act {
        Act::Settle { hold, .. } | Act::Release { hold } | Act::Reverse { hold, .. } => {
            Some(hold.id.as_str())
        }
        _ => None,
    });
    let ended: BTreeSet<&str> = ended.collect();
    let held = placed.filter(|(id, _)| !ended.contains(id.as_str())).map(|(_, amount)| amount).sum();
    (balance, held)
}

fn of_balances(site: &Site, server: &str, records: &[Record]) -> Vec<String> {
    let client = Client::new(&site.bearer);
    let mut found = Vec::new();
    for (account, accepted) in accepted_by_account(records) {
        let (balance, held) = expected(&accepted);
        let url = format!("{server}/v1/accounts/{}/balance", account.path());
        let shown = client.get_patiently(&url);
        let Ok((200, shown)) = shown else {
            found.push(format!("{account:?}: no balance: {shown:?}"));
            continue;
        };
        let figure = |field: &str| shown[field].as_str().map(micros);
        let available = balance - held;
        let expected =
            [("balance", balance), ("held", held), ("available", available), ("debt", (-available).max(0))];
        for (field, amount) in expected {
            if figure(field) != Some(amount) {
                found.push(format!("{account:?}: {field} should be {}: {shown}", text(amount)));
            }
        }
    }
    found
}

/// An account that was opened has the name and metadata it was opened with.
fn of_names(site: &Site, server: &str, records: &[Record]) -> Vec<String> {
    let client = Client::new(&site.bearer);
    let mut found = Vec::new();
    for record in records.iter().filter(|record| record.accepted().is_some()) {
        if !matches!(record.operation.act, Act::Open) {
            continue;
        }
        let body = record.operation.body();
        let shown =
            client.get_patiently(&format!("{server}/v1/accounts/{}", record.operation.account.path()));
        let kept = shown
            .as_ref()
            .is_ok_and(|(_, shown)| shown["name"] == body["name"] && shown["metadata"] == body["metadata"]);
        if !kept {
            found.push(about(record, &format!("is kept as {shown:?}")));
        }
    }
    found
}
