//! REFUND: usage is given back (rule 9).

use super::draft::Draft;
use super::give_back::left_of;
use super::{Original, bounds};
use crate::credits::Credits;
use crate::entry::{Direction, Kind, LedgerAccount, Use};
use crate::ids::Seq;
use crate::refusal::{Missing, Refusal};

/// `amount` absent: what is left of the original.
pub(super) fn refund(draft: &mut Draft, seq: Seq, amount: Option<Credits>) -> Result<(), Refusal> {
    if let Some(amount) = amount {
        bounds::above_zero(amount)?;
    }
    let state = draft.state;
    match state.originals.get(&seq) {
        Some(original) => {
            refund_original(draft, original, amount)?;
            draft.end_again()
        }
        // The journal has no gaps: what it holds and nobody loaded is of a kind that cannot be refunded.
        None if seq >= Seq(1) && draft.is_written(seq) => Err(Refusal::NotRefundable),
        None => Err(Refusal::NotFound { what: Missing::Entry }),
    }
}

/// The REFUND of one original. What came back to ended grants has yet to end again.
pub(super) fn refund_original(
    draft: &mut Draft,
    original: &Original,
    amount: Option<Credits>,
) -> Result<(), Refusal> {
    let entry = &original.entry;
    if !matches!(entry.kind, Kind::Consume | Kind::Settle) {
        return Err(Refusal::NotRefundable);
    }
    let refundable = Credits::sum(left_of(original)?)?;
    let amount = amount.unwrap_or(refundable);
    if amount.is_zero() || amount > refundable {
        return Err(Refusal::RefundExceedsCharge { refundable });
    }
    let mut pen = draft.pen(Kind::Refund);
    pen.call = draft.call_of(&entry.call);
    pen.hold = entry.hold;
    pen.usage = entry.usage.map(|used| Use { at: used.at, amount: amount.negated() });
    pen.house(LedgerAccount::RefundExpense, Direction::Debit, amount, None);
    draft.give_back(&mut pen, original, amount)?;
    pen.answer.refundable = Some(refundable.minus(amount)?);
    draft.write(pen)?;
    Ok(())
}
