//! AUTH_RELEASE and AUTH_REVERSAL: an open hold is given back, part by part in the order reserved.

use super::draft::Draft;
use super::give_back::Returns;
use super::usage;
use crate::command::ReverseOutcome;
use crate::credits::Credits;
use crate::entry::{Kind, Use};
use crate::hold::{Hold, HoldPart, HoldStatus};
use crate::ids::{HoldId, Seq};
use crate::refusal::Refusal;

pub(super) fn release(draft: &mut Draft, id: HoldId) -> Result<(), Refusal> {
    let hold = draft.open_hold(id)?.clone();
    draft.shown_hold = Some(id);
    draft.end_hold(&hold, HoldStatus::Released)?;
    draft.end_again()
}

pub(super) fn reverse(draft: &mut Draft, id: HoldId, outcome: ReverseOutcome) -> Result<(), Refusal> {
    let hold = draft.open_hold(id)?.clone();
    draft.shown_hold = Some(id);
    draft.end_hold(&hold, HoldStatus::Reversed)?;
    draft.hold_mut(id)?.needs_review = outcome == ReverseOutcome::Unknown;
    draft.end_again()
}

/// The parts that `used` takes, in the order reserved, and those it leaves.
pub(super) fn split(parts: &[HoldPart], used: Credits) -> Result<(Vec<HoldPart>, Vec<HoldPart>), Refusal> {
    let (mut taken, mut left, mut rest) = (Vec::new(), Vec::new(), used);
    for part in parts {
        let amount = part.amount.min(rest);
        rest = rest.minus(amount)?;
        let over = part.amount.minus(amount)?;
        if amount.is_positive() {
            taken.push(HoldPart { grant: part.grant, amount });
        }
        if over.is_positive() {
            left.push(HoldPart { grant: part.grant, amount: over });
        }
    }
    Ok((taken, left))
}

impl Draft<'_> {
    /// A hold that can still be ended or renewed. The conflict names the entry that ended it, unless that is a lapse
    /// which this command would have been the first to write.
    pub fn open_hold(&self, id: HoldId) -> Result<&Hold, Refusal> {
        let hold = self.known_hold(id)?;
        if hold.status == HoldStatus::Open { Ok(hold) } else { Err(self.hold_ended(hold, hold.ended_by)) }
    }

    pub fn hold_ended(&self, hold: &Hold, entry: Option<Seq>) -> Refusal {
        Refusal::HoldEnded { final_state: hold.status, entry: entry.filter(|seq| self.is_written(*seq)) }
    }

    /// Gives a whole open hold back: released, reversed or expired.
    pub fn end_hold(&mut self, hold: &Hold, status: HoldStatus) -> Result<(), Refusal> {
        let kind = if status == HoldStatus::Released { Kind::AuthRelease } else { Kind::AuthReversal };
        let used = usage(&hold.call, hold.placed_at, hold.amount.negated());
        let seq = self.give_parts_back(kind, hold, &hold.parts, used)?;
        let ended = self.hold_mut(hold.id)?;
        ended.status = status;
        ended.ended_by = Some(seq);
        if status == HoldStatus::Released {
            ended.released = hold.amount;
        } else {
            ended.reversed = hold.amount;
        }
        Ok(())
    }

    /// The entry that moves parts of a hold from held to available.
    pub fn give_parts_back(
        &mut self,
        kind: Kind,
        hold: &Hold,
        parts: &[HoldPart],
        used: Option<Use>,
    ) -> Result<Seq, Refusal> {
        let mut pen = self.pen(kind);
        pen.hold = Some(hold.id);
        pen.call = self.call_of(&hold.call);
        pen.usage = used;
        let mut returned = Returns::default();
        for part in parts {
            self.use_held(&mut pen, part.grant, part.amount)?;
            self.come_back(&mut pen, part.grant, part.amount, &mut returned)?;
        }
        self.write(pen)
    }
}
