//! VOID and extend: a live grant ends early, or later.

use chrono::{DateTime, Utc};

use super::draft::Draft;
use super::grant::move_end;
use crate::entry::Kind;
use crate::ids::GrantId;
use crate::refusal::Refusal;

/// Takes what is left of one grant, no more. What holds have reserved of it may still pay for them. A second void
/// was answered before as a replay of the first.
pub(super) fn void(draft: &mut Draft, id: GrantId) -> Result<(), Refusal> {
    let left = draft.live_grant(id)?.remaining;
    draft.shown_grant = Some(id);
    let mut pen = draft.pen(Kind::Void);
    pen.call = draft.call();
    draft.lapse_grant(&mut pen, id, left)?;
    draft.grant_mut(id)?.voided_at = Some(draft.now);
    draft.write(pen)?;
    Ok(())
}

/// Moves the end of a live grant; never to an earlier date.
pub(super) fn extend(draft: &mut Draft, id: GrantId, expires_at: DateTime<Utc>) -> Result<(), Refusal> {
    let grant = draft.live_grant(id)?;
    if grant.expires_at.is_none_or(|end| expires_at < end) {
        return Err(Refusal::Invalid { field: "expires_at", reason: "is earlier than the grant ends now" });
    }
    draft.shown_grant = Some(id);
    move_end(draft, id, expires_at)
}
