//! The ledger's codes in plain words. One place, so that a kind has one name on every screen.

use ledger::command::ReasonCode;
use ledger::entry::{Entry, Kind, NoteKind};
use ledger::grant::Pool;
use ledger::hold::HoldStatus;
use ledger::service::BalanceView;

use crate::format::amount;

/// A kind as a filter names it.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Topup => "Credits added",
        Kind::Consume => "Charge",
        Kind::AuthHold => "Hold",
        Kind::Settle => "Call settled",
        Kind::AuthRelease => "Hold released",
        Kind::AuthReversal => "Hold cancelled",
        Kind::Refund => "Usage given back",
        Kind::Clawback => "Payment taken back",
        Kind::Restore => "Payment restored",
        Kind::Expire => "Credits expired",
        Kind::Void => "Credits voided",
        Kind::Adjust => "Adjustment",
        Kind::Note => "Note",
    }
}

/// What an entry is, as its row says it.
pub fn title(entry: &Entry) -> &'static str {
    match entry.kind {
        Kind::Topup => entry.answer.pool.map_or("Credits added", added),
        Kind::Settle if entry.answer.late => "Call settled late",
        Kind::AuthReversal => reversed(entry),
        Kind::Adjust => entry.answer.reason_code.map_or("Adjustment", adjusted),
        Kind::Note => entry.note.map_or("Note", noted),
        other => kind(other),
    }
}

fn added(pool: Pool) -> &'static str {
    match pool {
        Pool::Trial => "Trial credits added",
        Pool::Promo => "Promotional credits added",
        Pool::Paid => "Paid credits added",
    }
}

fn reversed(entry: &Entry) -> &'static str {
    match entry.answer.hold.as_ref() {
        Some(hold) if hold.needs_review => "Hold cancelled, outcome unknown",
        Some(hold) if hold.status == HoldStatus::Expired => "Hold expired",
        _ => "Hold cancelled",
    }
}

fn adjusted(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::Goodwill => "Adjustment: goodwill",
        ReasonCode::Correction => "Adjustment: correction",
        ReasonCode::Outage => "Adjustment: outage",
        ReasonCode::WriteOff => "Debt written off",
        ReasonCode::Reconciliation => "Adjustment: reconciliation",
        ReasonCode::Other => "Adjustment",
    }
}

fn noted(note: NoteKind) -> &'static str {
    match note {
        NoteKind::AccountOpened => "Account opened",
        NoteKind::JobStarted => "Job started",
        NoteKind::JobCompleted => "Job completed",
        NoteKind::JobFailed => "Job failed",
        NoteKind::JobRefunded => "Job refunded, nothing was left to give back",
        NoteKind::HoldRenewed => "Hold renewed",
        NoteKind::GrantExtended => "Expiry extended",
        NoteKind::Uncollected => "Part not collected",
        NoteKind::StateChanged => "Account state changed",
        NoteKind::PolicyChanged => "Policy changed",
        NoteKind::Erased => "Personal data erased",
    }
}

/// What the entry did to the balance, or between available and held, as a word beside the amount.
pub fn effect(entry: &Entry) -> String {
    let word = match entry.kind {
        Kind::Topup => "added",
        Kind::Consume | Kind::Settle => "used",
        Kind::Refund => "given back",
        Kind::Clawback => "taken back",
        Kind::Restore => "restored",
        Kind::Expire => "expired",
        Kind::Void => "voided",
        Kind::Adjust => "adjusted",
        Kind::AuthHold | Kind::AuthRelease | Kind::AuthReversal | Kind::Note => "",
    };
    match () {
        () if !entry.amount.is_zero() => word.to_owned(),
        () if entry.moved.is_positive() => format!("{} held", amount(entry.moved)),
        () if entry.moved.is_negative() => format!("{} freed", amount(entry.moved.abs())),
        () => String::new(),
    }
}

pub fn pool(pool: Pool) -> &'static str {
    match pool {
        Pool::Trial => "trial",
        Pool::Promo => "promotional",
        Pool::Paid => "paid",
    }
}

/// Why new calls are refused, or nothing.
pub fn stopped(balance: &BalanceView) -> String {
    if balance.breaker_open {
        format!(
            "New calls are refused until {} credits come in: the account owes that much.",
            amount(balance.debt)
        )
    } else {
        String::new()
    }
}
