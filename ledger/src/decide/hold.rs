//! AUTH_HOLD: credits are set aside under a time limit; and the NOTE of a renewal.

use chrono::Duration;

use super::draft::Draft;
use super::{bounds, usage};
use crate::command::JobKind;
use crate::credits::Credits;
use crate::entry::{Kind, NoteKind};
use crate::hold::{Hold, HoldStatus};
use crate::ids::HoldId;
use crate::limits::{HOLD_AGE_MAX_S, HOLDS_OPEN_MAX};
use crate::refusal::{Limit, Refusal};

pub(super) fn place(
    draft: &mut Draft,
    id: HoldId,
    amount: Credits,
    expires_in_s: Option<u32>,
) -> Result<(), Refusal> {
    bounds::zero_or_more(amount)?;
    let lifetime_s = draft.policy.hold_lifetime_s.min(HOLD_AGE_MAX_S);
    let open_s = expires_in_s.unwrap_or_else(|| draft.policy.hold_default_s.min(lifetime_s));
    require_lifetime(open_s, lifetime_s)?;
    draft.require_open()?;
    draft.require_enough(amount)?;
    draft.require_quota(amount)?;
    if draft.all_holds().filter(|hold| hold.is_open(draft.now)).count() >= HOLDS_OPEN_MAX {
        return Err(Refusal::LimitExceeded { limit: Limit::OpenHolds });
    }
    let parts = draft.plan_spend(amount)?;
    let mut pen = draft.pen(Kind::AuthHold);
    pen.call = draft.call();
    pen.hold = Some(id);
    pen.usage = usage(&pen.call, draft.now, amount);
    for part in &parts {
        draft.take(&mut pen, part.grant, part.amount)?;
        draft.set_aside(&mut pen, part.grant, part.amount)?;
    }
    let call = pen.call.clone();
    let seq = draft.write(pen)?;
    draft.add_hold(Hold {
        id,
        seq,
        amount,
        status: HoldStatus::Open,
        parts,
        placed_at: draft.now,
        lifetime_s,
        renewed_at: draft.now,
        expires_at: draft.now + Duration::seconds(i64::from(open_s)),
        settled: Credits::ZERO,
        released: Credits::ZERO,
        reversed: Credits::ZERO,
        needs_review: false,
        ended_by: None,
        late_settle: None,
        call,
    });
    draft.shown_hold = Some(id);
    draft.note_job(JobKind::Charge, seq, Some(id));
    Ok(())
}

/// The new end counts from now. It is refused, not shortened, where it passes the hold's lifetime or 24 hours after
/// the hold was placed: a caller must not believe in time that it does not have.
pub(super) fn renew(draft: &mut Draft, id: HoldId, expires_in_s: u32) -> Result<(), Refusal> {
    if expires_in_s == 0 {
        return require_lifetime(0, 0);
    }
    let hold = draft.open_hold(id)?.clone();
    require_lifetime(expires_in_s, hold.lifetime_s)?;
    let expires_at = draft.now + Duration::seconds(i64::from(expires_in_s));
    if expires_at > hold.placed_at + Duration::seconds(i64::from(HOLD_AGE_MAX_S)) {
        let reason = "ends more than 24 hours after the hold was placed";
        return Err(Refusal::Invalid { field: "expires_in_s", reason });
    }
    let now = draft.now;
    let renewed = draft.hold_mut(id)?;
    renewed.expires_at = expires_at;
    renewed.renewed_at = now;
    draft.shown_hold = Some(id);
    let mut pen = draft.note(NoteKind::HoldRenewed);
    pen.hold = Some(id);
    pen.call = draft.call_of(&hold.call);
    draft.write(pen)?;
    Ok(())
}

fn require_lifetime(open_s: u32, lifetime_s: u32) -> Result<(), Refusal> {
    let invalid = |reason| Err(Refusal::Invalid { field: "expires_in_s", reason });
    if open_s == 0 {
        return invalid("must be above 0");
    }
    if open_s > lifetime_s { invalid("is longer than the policy lets a hold live") } else { Ok(()) }
}
