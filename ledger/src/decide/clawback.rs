//! CLAWBACK: money went back, so the credits it bought go too. Never refused for want of credits.

use super::bounds;
use super::draft::Draft;
use crate::credits::Credits;
use crate::entry::{Direction, Kind, LedgerAccount};
use crate::grant::Pool;
use crate::ids::GrantId;
use crate::refusal::Refusal;

/// From the payment's grant; then from what of it lapsed or was voided; then from other live grants in spend
/// order; then as debt. `reverses` names the entry that made the grant, by which its clawbacks are found again.
///
/// Only paid credits have a payment. A trial or a promotion was given away (a coupon that pays for everything leaves
/// no money side either), so no money can go back for it, and nothing of it can be clawed back; a void ends it.
pub(super) fn clawback(
    draft: &mut Draft,
    id: GrantId,
    amount: Credits,
    payment_ref: Option<&String>,
) -> Result<(), Refusal> {
    bounds::above_zero(amount)?;
    let grant = draft.known_grant(id)?.clone();
    let clawable = match grant.pool {
        Pool::Paid => grant.amount.minus(grant.clawed_back.minus(grant.restored)?)?,
        Pool::Trial | Pool::Promo => Credits::ZERO,
    };
    if amount > clawable {
        return Err(Refusal::ClawbackExceedsGrant { clawable });
    }
    draft.shown_grant = Some(id);
    let mut pen = draft.pen(Kind::Clawback);
    pen.call = draft.call();
    pen.reverses = Some(grant.seq);
    pen.answer.payment_ref = payment_ref.cloned();
    let own = grant.remaining.min(amount);
    draft.take(&mut pen, id, own)?;
    let rest = amount.minus(own)?;
    let lapsed = grant.lapsed.minus(grant.lapse_taken)?.min(rest);
    pen.house(LedgerAccount::ExpirationGain, Direction::Debit, lapsed, Some(id));
    let tallied = draft.grant_mut(id)?;
    tallied.lapse_taken = tallied.lapse_taken.plus(lapsed)?;
    tallied.clawed_back = tallied.clawed_back.plus(amount)?;
    draft.force(&mut pen, rest.minus(lapsed)?)?;
    pen.house(LedgerAccount::PrepaidLiability, Direction::Credit, amount, None);
    draft.write(pen)?;
    Ok(())
}
