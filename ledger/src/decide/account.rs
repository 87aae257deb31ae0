//! NOTEs on the account itself: opened, state and policy changed, erased.

use super::draft::Draft;
use crate::account::AccountStatus;
use crate::entry::NoteKind;
use crate::grant::Grant;
use crate::policy::Policy;
use crate::refusal::Refusal;

/// Entry 1.
pub(super) fn open(draft: &mut Draft, policy: &Policy, time_zone: &str) -> Result<(), Refusal> {
    draft.status = AccountStatus::Open;
    draft.policy = policy.clone();
    let mut pen = draft.note(NoteKind::AccountOpened);
    pen.call = draft.call();
    pen.answer.status = Some(AccountStatus::Open);
    pen.answer.policy = Some(policy.name.clone());
    pen.answer.time_zone = Some(time_zone.to_owned());
    draft.write(pen)?;
    Ok(())
}

/// The same state again is an entry too: somebody decided it. An erased account stays closed.
pub(super) fn set_status(draft: &mut Draft, status: AccountStatus) -> Result<(), Refusal> {
    if draft.erased && status != AccountStatus::Closed {
        return Err(Refusal::AccountClosed);
    }
    draft.status = status;
    let mut pen = draft.note(NoteKind::StateChanged);
    pen.call = draft.call();
    pen.answer.status = Some(status);
    draft.write(pen)?;
    Ok(())
}

pub(super) fn set_policy(draft: &mut Draft, policy: &Policy) -> Result<(), Refusal> {
    draft.policy = policy.clone();
    let mut pen = draft.note(NoteKind::PolicyChanged);
    pen.call = draft.call();
    pen.answer.policy = Some(policy.name.clone());
    draft.write(pen)?;
    Ok(())
}

/// P10: the NOTE is the main entry; an ADJUST closes out what is left. Every grant ends with it (one that is spent
/// has nothing to mark), so that what comes back later is closed out in turn; open holds may still settle. A second
/// erasure finds nothing to close out, and lets the store delete the words that came since.
pub(super) fn erase(draft: &mut Draft) -> Result<(), Refusal> {
    draft.status = AccountStatus::Closed;
    let mut pen = draft.note(NoteKind::Erased);
    pen.call = draft.call();
    pen.answer.status = Some(AccountStatus::Closed);
    draft.write(pen)?;
    let ends =
        |grant: &&Grant| draft.is_live(grant) && !(grant.remaining.is_zero() && grant.reserved.is_zero());
    let mut live: Vec<_> = draft.all_grants().filter(ends).map(Grant::spend_order).collect();
    live.sort_unstable();
    let ids: Vec<_> = live.into_iter().map(|(.., id)| id).collect();
    draft.erased = true;
    for id in &ids {
        draft.grant_mut(*id)?.voided_at = Some(draft.now);
    }
    draft.close_out(&ids)
}
