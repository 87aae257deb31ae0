//! TOPUP: credits are put in. And rule 10: when they end, and which earlier grants live longer for it.
//!
//! A grant rolls, and moves others, only where its end came from a rolling policy; an end that the command names
//! does neither. A plus adjustment makes its grant here too, under the same rules.

use chrono::{DateTime, Utc};

use super::draft::Draft;
use super::pen::Pen;
use super::{Signal, bounds};
use crate::command::Expiry;
use crate::credits::Credits;
use crate::entry::{Direction, Kind, LedgerAccount, NoteKind};
use crate::grant::{Grant, GrantView, Pool};
use crate::ids::GrantId;
use crate::limits::GRANTS_LIVE_MAX;
use crate::refusal::{Limit, Refusal};

/// A grant as a command asks for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewGrant<'a> {
    pub id: GrantId,
    pub amount: Credits,
    pub pool: Pool,
    pub expires: Expiry,
    pub source: Option<&'a String>,
}

pub(super) fn grant(draft: &mut Draft, new: NewGrant) -> Result<(), Refusal> {
    bounds::above_zero(new.amount)?;
    let from = match new.pool {
        Pool::Paid => LedgerAccount::PrepaidLiability,
        Pool::Trial | Pool::Promo => LedgerAccount::PromotionExpense,
    };
    let pen = draft.pen(Kind::Topup);
    fund(draft, pen, from, new)
}

/// Makes a grant on an entry begun by the caller, writes it, and moves the ends that roll with it.
///
/// A payment may be heard of so late that its grant has ended by the policy, or after its account was erased. It is
/// still recorded, and what it put in ends in the same set.
pub(super) fn fund(
    draft: &mut Draft,
    mut pen: Pen,
    from: LedgerAccount,
    new: NewGrant,
) -> Result<(), Refusal> {
    let (expires_at, rolling) = end_of(draft, new.pool, new.expires)?;
    let counts = |grant: &&Grant| {
        draft.is_live(grant) && (grant.remaining.is_positive() || grant.reserved.is_positive())
    };
    if draft.all_grants().filter(counts).count() >= GRANTS_LIVE_MAX {
        return Err(Refusal::LimitExceeded { limit: Limit::LiveGrants });
    }
    let seq = draft.next_seq();
    draft.add_grant(Grant {
        id: new.id,
        seq,
        pool: new.pool,
        amount: new.amount,
        remaining: Credits::ZERO,
        reserved: Credits::ZERO,
        expires_at,
        rolling,
        voided_at: None,
        source: new.source.cloned(),
        granted_at: draft.now,
        lapsed: Credits::ZERO,
        lapse_taken: Credits::ZERO,
        clawed_back: Credits::ZERO,
        restored: Credits::ZERO,
        paid_to_debt: Credits::ZERO,
        given_back_for_debt: Credits::ZERO,
    });
    pen.call = draft.call();
    pen.answer.pool = Some(new.pool);
    pen.house(from, Direction::Debit, new.amount, None);
    let ended = expires_at.is_some_and(|end| end <= draft.now);
    let to_debt = if ended { Credits::ZERO } else { draft.head.debt.min(new.amount) };
    draft.pay_debt(&mut pen, Some(new.id), to_debt)?;
    draft.put(&mut pen, new.id, new.amount.minus(to_debt)?)?;
    if ended || draft.erased {
        draft.came_back.push(new.id);
    }
    draft.shown_grant = Some(new.id);
    draft.write(pen)?;
    draft.signal(Signal::GrantMade { seq, grant: new.id });
    if let Some(end) = expires_at
        && rolling
    {
        roll(draft, new, end)?;
    }
    draft.end_again()
}

/// The end of a new grant, counted from the payment's time, and whether it rolls.
fn end_of(draft: &Draft, pool: Pool, expires: Expiry) -> Result<(Option<DateTime<Utc>>, bool), Refusal> {
    match expires {
        Expiry::Never => Ok((None, false)),
        Expiry::At(at) if at <= draft.now => {
            Err(Refusal::Invalid { field: "expires_at", reason: "lies in the past" })
        }
        Expiry::At(at) => Ok((Some(at), false)),
        Expiry::Policy => {
            let rule = draft.policy.expiry(pool);
            Ok((rule.end(draft.occurred_at().unwrap_or(draft.now)), rule.is_rolling()))
        }
    }
}

/// Moves the ends of the pool's grants that roll and are not yet due, never to an earlier date; one NOTE for each.
fn roll(draft: &mut Draft, new: NewGrant, end: DateTime<Utc>) -> Result<(), Refusal> {
    let moves = |grant: &&Grant| {
        grant.id != new.id
            && grant.pool == new.pool
            && grant.rolling
            && draft.is_live(grant)
            && grant.expires_at.is_some_and(|old| old < end)
    };
    let mut moved: Vec<_> = draft.all_grants().filter(moves).map(|grant| (grant.seq, grant.id)).collect();
    moved.sort_unstable();
    moved.into_iter().try_for_each(|(_, id)| move_end(draft, id, end))
}

/// Sets a grant's end, with the NOTE that says so.
pub(super) fn move_end(draft: &mut Draft, id: GrantId, end: DateTime<Utc>) -> Result<(), Refusal> {
    let now = draft.now;
    let grant = draft.grant_mut(id)?;
    grant.expires_at = Some(end);
    let view = GrantView::of(grant, now);
    let mut pen = draft.note(NoteKind::GrantExtended);
    pen.answer.grant = Some(view);
    draft.write(pen)?;
    Ok(())
}
