//! Reads the journal of the run's accounts back over HTTP: what the ledger says was used, and that what it shows
//! hangs together. It believes no answer that was given while the run was going.

use ledger::Credits;
use serde::Deserialize;

use super::client::Client;
use super::{DriveError, Run};

/// The most that a page may have.
const PAGE_ROWS: u32 = 200;

/// What an account's journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Sum of the run's SETTLE entries.
    pub used: Credits,
    /// The run's SETTLE entries.
    pub settles: u64,
    /// All entries of the account, whoever made them.
    pub entries: u64,
    /// The first thing that does not hang together.
    pub fault: Option<String>,
}

#[derive(Deserialize)]
struct EntriesPage {
    data: Vec<EntryRow>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct EntryRow {
    seq: i64,
    kind: String,
    amount: Credits,
    moved: Credits,
    available_after: Credits,
    held_after: Credits,
    request_ref: Option<String>,
    lines: Vec<LineRow>,
}

#[derive(Deserialize)]
struct LineRow {
    direction: String,
    amount: Credits,
}

/// Reads an account from its newest entry back to its first.
pub fn read(client: &Client<'_>, run: &Run, account: &str) -> Result<Reading, DriveError> {
    let mut reading = Reading::default();
    let mut newer: Option<EntryRow> = None;
    let mut cursor: Option<String> = None;
    loop {
        let from = cursor.map(|cursor| format!("&cursor={}", percent_encoded(&cursor))).unwrap_or_default();
        let path = format!("/v1/accounts/{account}/entries?limit={PAGE_ROWS}{from}");
        let answer = client.get(&path).map_err(DriveError::ReadBack)?;
        let page: EntriesPage =
            serde_json::from_value(answer.body).map_err(|error| DriveError::Shape(error.to_string()))?;
        for row in page.data {
            take(&mut reading, run, &row)?;
            let fault =
                fault_of(&row).or_else(|| newer.as_ref().and_then(|newer| fault_between(&row, newer)));
            reading.fault = reading
                .fault
                .or_else(|| fault.map(|fault| format!("account {account}, entry {}: {fault}", row.seq)));
            newer = Some(row);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    if newer.is_some_and(|first| first.seq != 1) {
        reading.fault =
            reading.fault.or_else(|| Some(format!("account {account}: its first entry is missing")));
    }
    Ok(reading)
}

fn take(reading: &mut Reading, run: &Run, row: &EntryRow) -> Result<(), DriveError> {
    reading.entries += 1;
    if row.kind == "SETTLE" && row.request_ref.as_deref().is_some_and(|reference| run.owns(reference)) {
        reading.settles += 1;
        reading.used = reading.used.minus(row.amount).map_err(|_| DriveError::TooLarge)?;
    }
    Ok(())
}

fn fault_of(row: &EntryRow) -> Option<String> {
    let side = |direction: &str| {
        Credits::sum(row.lines.iter().filter(|line| line.direction == direction).map(|line| line.amount))
    };
    match (side("debit"), side("credit")) {
        (Ok(debits), Ok(credits)) if debits == credits => None,
        (Ok(debits), Ok(credits)) => Some(format!("debits are {debits} and credits {credits}")),
        _ => Some("its lines have no sum".to_owned()),
    }
}

/// What an entry leaves must be what the next one starts from.
fn fault_between(older: &EntryRow, newer: &EntryRow) -> Option<String> {
    let follows = |before: Credits, change: Result<Credits, _>, after: Credits| {
        change.and_then(|change| before.plus(change)) == Ok(after)
    };
    if newer.seq != older.seq + 1 {
        return Some(format!("the next entry is {}", newer.seq));
    }
    let available = follows(older.available_after, newer.amount.minus(newer.moved), newer.available_after);
    let balance = older.available_after.plus(older.held_after).and_then(|before| before.plus(newer.amount));
    let held = newer.available_after.plus(newer.held_after) == balance;
    // A settle takes out of held, so only its sum is known from its amounts.
    let available = available || newer.kind == "SETTLE";
    if available && held { None } else { Some("the next entry does not follow from it".to_owned()) }
}

fn percent_encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: i64, kind: &str, amounts: [&str; 4]) -> EntryRow {
        let [amount, moved, available_after, held_after] = amounts.map(|text| Credits::parse(text).unwrap());
        EntryRow {
            seq,
            kind: kind.to_owned(),
            amount,
            moved,
            available_after,
            held_after,
            request_ref: None,
            lines: Vec::new(),
        }
    }

    #[test]
    fn a_gap_and_a_step_that_does_not_follow_are_seen() {
        let first = row(1, "TOPUP", ["10", "0", "10", "0"]);
        assert_eq!(fault_between(&first, &row(2, "AUTH_HOLD", ["0", "4", "6", "4"])), None);
        assert_eq!(fault_between(&first, &row(2, "CONSUME", ["-4", "0", "6", "0"])), None);
        assert!(fault_between(&first, &row(3, "CONSUME", ["-4", "0", "6", "0"])).is_some());
        assert!(fault_between(&first, &row(2, "CONSUME", ["-4", "0", "6.000001", "0"])).is_some());
        let held = row(2, "AUTH_HOLD", ["0", "4", "6", "4"]);
        assert_eq!(fault_between(&held, &row(3, "SETTLE", ["-5", "0", "5", "0"])), None);
        assert!(fault_between(&held, &row(3, "SETTLE", ["-5", "0", "6", "0"])).is_some());
    }

    #[test]
    fn cursors_pass_through_a_query_unharmed() {
        assert_eq!(percent_encoded("aZ09-._~"), "aZ09-._~");
        assert_eq!(percent_encoded("a+b/c="), "a%2Bb%2Fc%3D");
    }
}
