//! The hash chain of an account: `hash(n) = SHA-256(hash(n−1) ‖ canonical form of entry n with its lines)`.
//!
//! The canonical form writes every stored field in a fixed order, each with its length, so that no two entries
//! share one: instants in microseconds, amounts in millionths, JSON with sorted keys. What is left out: the hash itself, the length of the set
//! (the entries say it), the transaction id and epoch (they change with a restore) and the words, of which only the salted digest is covered, so that
//! erasing them leaves the chain whole.
//!
//! Adding a field: write it in [`canonical`] behind the others and only when it is set, so that old hashes stay right.

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::command::{in_order, sorted};
use crate::credits::Credits;
use crate::entry::{Entry, Line, Words};

/// Sets the hashes of consecutive entries and returns the new head's.
pub fn seal(previous: [u8; 32], entries: &mut [Entry]) -> [u8; 32] {
    entries.iter_mut().fold(previous, |previous, entry| {
        entry.hash = hash(&previous, entry);
        entry.hash
    })
}

/// The hash that `entry` must have after `previous`.
pub fn hash(previous: &[u8; 32], entry: &Entry) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(previous);
    digest.update(canonical(entry));
    digest.finalize().into()
}

/// The metadata of an entry as they are stored and digested: JSON with sorted keys.
pub fn metadata_text(words: &Words) -> Option<String> {
    words.metadata.as_ref().map(|metadata| sorted(metadata).to_string())
}

/// The salted digest of an entry's words, the metadata in the form of [`metadata_text`].
pub fn words_digest(salt: &[u8], reason: Option<&str>, metadata: Option<&str>) -> [u8; 32] {
    let mut form = Form::with_capacity(64);
    form.bytes(salt);
    form.text(reason);
    form.text(metadata);
    Sha256::digest(&form.0).into()
}

fn canonical(entry: &Entry) -> Vec<u8> {
    let mut form = Form::with_capacity(512);
    form.id(entry.account.0);
    form.number(entry.seq.0);
    form.number(i64::from(entry.kind.code()));
    form.number(entry.note.map_or(0, |note| i64::from(note.code())));
    form.number(entry.set_seq.0);
    form.number(i64::from(entry.is_main));
    for amount in [
        entry.amount,
        entry.moved,
        entry.available_after,
        entry.held_after,
        entry.debt_after,
        entry.amount_total,
        entry.moved_total,
    ] {
        form.amount(amount);
    }
    for at in [entry.occurred_at, entry.recorded_at, entry.effective_at] {
        form.instant(at);
    }
    form.number(i64::from(entry.actor.kind.code()));
    form.text(Some(&entry.actor.id));
    form.text(entry.actor.role.as_deref());
    match &entry.key {
        Some(stamp) => {
            form.number(i64::from(stamp.origin.code()));
            form.bytes(&stamp.key);
            form.bytes(&stamp.content);
        }
        None => form.nothing(),
    }
    let call = &entry.call;
    for field in [&call.member, &call.job_id, &call.request_ref, &call.model, &call.key_ref] {
        form.text(field.as_deref());
    }
    form.optional(entry.hold, |form, hold| form.id(hold.0));
    form.optional(entry.reverses, |form, seq| form.number(seq.0));
    form.optional(entry.usage, |form, usage| {
        form.instant(usage.at);
        form.amount(usage.amount);
    });
    form.text(answer_text(entry).as_deref());
    form.optional(entry.words_digest, |form, digest| form.bytes(&digest));
    form.count(entry.lines.len());
    for line in &entry.lines {
        canonical_line(&mut form, line);
    }
    form.0
}

fn canonical_line(form: &mut Form, line: &Line) {
    form.number(i64::from(line.ledger_account.code()));
    form.number(i64::from(line.direction.code()));
    form.amount(line.amount);
    form.optional(line.grant, |form, grant| form.id(grant.0));
    form.number(i64::from(line.debt.code()));
    form.optional(line.balance_after, Form::amount);
}

/// The answer as stored, or nothing where it is empty: most charges have none.
fn answer_text(entry: &Entry) -> Option<String> {
    if entry.answer.is_empty() {
        return None;
    }
    let value = serde_json::to_value(&entry.answer).unwrap_or_default();
    Some(in_order(value).to_string())
}

/// A byte string in which every field starts with its length, or says that it is absent.
struct Form(Vec<u8>);

impl Form {
    fn with_capacity(bytes: usize) -> Form {
        Form(Vec::with_capacity(bytes))
    }

    fn nothing(&mut self) {
        self.0.extend_from_slice(&u32::MAX.to_be_bytes());
    }

    fn count(&mut self, count: usize) {
        self.number(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX - 1).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.bytes(text.as_bytes()),
            None => self.nothing(),
        }
    }

    fn number(&mut self, number: i64) {
        self.bytes(&number.to_be_bytes());
    }

    fn amount(&mut self, amount: Credits) {
        self.bytes(&amount.micros().to_be_bytes());
    }

    fn instant(&mut self, at: DateTime<Utc>) {
        self.number(at.timestamp_micros());
    }

    fn id(&mut self, id: Uuid) {
        self.bytes(id.as_bytes());
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Form, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.nothing(),
        }
    }
}
