//! CONSUME: usage whose price is known is paid at once.

use super::draft::Draft;
use super::{bounds, usage};
use crate::command::JobKind;
use crate::credits::Credits;
use crate::entry::{Direction, Kind, LedgerAccount};
use crate::refusal::Refusal;

pub(super) fn charge(draft: &mut Draft, amount: Credits) -> Result<(), Refusal> {
    bounds::zero_or_more(amount)?;
    draft.require_open()?;
    draft.require_enough(amount)?;
    draft.require_quota(amount)?;
    let plan = draft.plan_spend(amount)?;
    let mut pen = draft.pen(Kind::Consume);
    pen.call = draft.call();
    pen.usage = usage(&pen.call, draft.now, amount);
    for part in plan {
        draft.take(&mut pen, part.grant, part.amount)?;
    }
    pen.house(LedgerAccount::Revenue, Direction::Credit, amount, None);
    let seq = draft.write(pen)?;
    draft.note_job(JobKind::Charge, seq, None);
    Ok(())
}
