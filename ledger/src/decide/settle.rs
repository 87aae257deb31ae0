//! SETTLE: the true cost of a hold's work (rules 6 and 7), and what follows: the rest released, or a part uncollected.

use super::draft::Draft;
use super::pen::Pen;
use super::release::split;
use super::{Signal, bounds, usage};
use crate::credits::Credits;
use crate::entry::{Direction, Kind, LedgerAccount, NoteKind};
use crate::hold::{Hold, HoldStatus};
use crate::ids::HoldId;
use crate::policy::Overrun;
use crate::refusal::Refusal;

/// How the true cost stands to the hold.
struct Cost {
    collected: Credits,
    /// Of `collected`, what is above the hold.
    overrun: Credits,
    /// Above the hold, where the policy caps.
    uncollected: Credits,
}

impl Cost {
    fn of(amount: Credits, hold: &Hold, policy: Overrun) -> Result<Cost, Refusal> {
        let above = amount.minus(hold.amount)?.max(Credits::ZERO);
        let (overrun, uncollected) = match policy {
            Overrun::Full => (above, Credits::ZERO),
            Overrun::Cap => (Credits::ZERO, above),
        };
        Ok(Cost { collected: amount.minus(uncollected)?, overrun, uncollected })
    }
}

pub(super) fn settle(draft: &mut Draft, id: HoldId, amount: Credits) -> Result<(), Refusal> {
    bounds::zero_or_more(amount)?;
    let hold = draft.known_hold(id)?.clone();
    let cost = Cost::of(amount, &hold, draft.policy.overrun)?;
    draft.shown_hold = Some(id);
    match (hold.status, hold.late_settle) {
        (HoldStatus::Open, _) => settle_open(draft, &hold, &cost)?,
        (HoldStatus::Expired, None) => settle_late(draft, &hold, &cost)?,
        (HoldStatus::Reversed, None) if hold.needs_review => settle_late(draft, &hold, &cost)?,
        (_, late) => return Err(draft.hold_ended(&hold, late.or(hold.ended_by))),
    }
    if cost.uncollected.is_positive() {
        let mut pen = draft.note(NoteKind::Uncollected);
        pen.hold = Some(id);
        pen.call = draft.call_of(&hold.call);
        pen.answer.uncollected = Some(cost.uncollected);
        draft.write(pen)?;
    }
    draft.end_again()
}

fn settle_open(draft: &mut Draft, hold: &Hold, cost: &Cost) -> Result<(), Refusal> {
    let out_of_hold = cost.collected.minus(cost.overrun)?;
    let (used, left) = split(&hold.parts, out_of_hold)?;
    let mut pen = settle_pen(draft, hold, cost);
    pen.usage = usage(&pen.call, hold.placed_at, cost.collected.minus(hold.amount)?);
    pen.answer.released = Some(hold.amount.minus(out_of_hold)?);
    for part in used {
        draft.use_held(&mut pen, part.grant, part.amount)?;
    }
    draft.force(&mut pen, cost.overrun)?;
    pen.house(LedgerAccount::Revenue, Direction::Credit, cost.collected, None);
    let seq = draft.write(pen)?;
    let settled = draft.hold_mut(hold.id)?;
    settled.status = HoldStatus::Settled;
    settled.settled = out_of_hold;
    settled.released = hold.amount.minus(out_of_hold)?;
    settled.ended_by = Some(seq);
    if !left.is_empty() {
        draft.give_parts_back(Kind::AuthRelease, hold, &left, None)?;
    }
    Ok(())
}

/// Success reported after the hold ended without one: posted once, drawn like an overrun. The status stays.
fn settle_late(draft: &mut Draft, hold: &Hold, cost: &Cost) -> Result<(), Refusal> {
    let mut pen = settle_pen(draft, hold, cost);
    pen.usage = usage(&pen.call, hold.placed_at, cost.collected);
    pen.answer.released = Some(Credits::ZERO);
    pen.answer.late = true;
    draft.force(&mut pen, cost.collected)?;
    pen.house(LedgerAccount::Revenue, Direction::Credit, cost.collected, None);
    let seq = draft.write(pen)?;
    draft.hold_mut(hold.id)?.late_settle = Some(seq);
    draft.signal(Signal::LateSettle { seq, hold: hold.id });
    Ok(())
}

fn settle_pen(draft: &Draft, hold: &Hold, cost: &Cost) -> Pen {
    let mut pen = draft.pen(Kind::Settle);
    pen.hold = Some(hold.id);
    pen.call = draft.call_of(&hold.call);
    pen.answer.settled = Some(cost.collected);
    pen.answer.overrun = Some(cost.overrun);
    pen
}
