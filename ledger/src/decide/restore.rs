//! RESTORE: clawbacks of a payment are undone, the newest first, one entry for each.

use super::bounds;
use super::draft::Draft;
use super::give_back::left_of;
use crate::credits::Credits;
use crate::entry::{Direction, Kind, LedgerAccount};
use crate::ids::GrantId;
use crate::refusal::Refusal;

pub(super) fn restore(
    draft: &mut Draft,
    id: GrantId,
    amount: Credits,
    payment_ref: Option<&String>,
) -> Result<(), Refusal> {
    bounds::above_zero(amount)?;
    draft.known_grant(id)?;
    let state = draft.state;
    let clawbacks = state.clawbacks.get(&id).map_or(&[][..], Vec::as_slice);
    let mut undone = Vec::with_capacity(clawbacks.len());
    for clawback in clawbacks.iter().rev() {
        undone.push((clawback, Credits::sum(left_of(clawback)?)?));
    }
    let restorable = Credits::sum(undone.iter().map(|(_, left)| *left))?;
    if amount > restorable {
        return Err(Refusal::RestoreExceedsClawbacks { restorable });
    }
    draft.shown_grant = Some(id);
    let mut rest = amount;
    for (clawback, left) in undone {
        let share = left.min(rest);
        if share.is_zero() {
            continue;
        }
        rest = rest.minus(share)?;
        let mut pen = draft.pen(Kind::Restore);
        pen.call = draft.call();
        pen.answer.payment_ref = payment_ref.cloned();
        pen.house(LedgerAccount::PrepaidLiability, Direction::Debit, share, None);
        draft.give_back(&mut pen, clawback, share)?;
        draft.write(pen)?;
    }
    let grant = draft.grant_mut(id)?;
    grant.restored = grant.restored.plus(amount)?;
    draft.end_again()
}
