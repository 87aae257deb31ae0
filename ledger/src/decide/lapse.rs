//! Rule 1: what fell due, brought to the present in memory. Views, decisions and the sweep all use this.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use chrono::{DateTime, Utc};

use super::draft::{Draft, Phase};
use super::{LapsedView, State};
use crate::grant::Grant;
use crate::hold::{Hold, HoldStatus};
use crate::ids::{GrantId, HoldId, Seq};
use crate::refusal::Refusal;

/// What falls due. The order is that of one instant: holds before grants, older before younger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Hold(Seq, HoldId),
    Grant(Seq, GrantId),
}

type Agenda = BinaryHeap<Reverse<(DateTime<Utc>, Due)>>;

/// The instant a grant ended or will end; on an erased account all have.
fn ends_at(grant: &Grant, erased: bool) -> Option<DateTime<Utc>> {
    if erased {
        return Some(DateTime::UNIX_EPOCH);
    }
    match (grant.voided_at, grant.expires_at) {
        (Some(voided), Some(end)) => Some(voided.min(end)),
        (voided, end) => voided.or(end),
    }
}

fn due_grant(grant: &Grant, erased: bool, now: DateTime<Utc>) -> Option<Reverse<(DateTime<Utc>, Due)>> {
    if grant.remaining.is_zero() {
        return None;
    }
    let at = ends_at(grant, erased)?;
    (at <= now).then_some(Reverse((at, Due::Grant(grant.seq, grant.id))))
}

fn due_hold(hold: &Hold, now: DateTime<Utc>) -> Option<Reverse<(DateTime<Utc>, Due)>> {
    let due = hold.status == HoldStatus::Open && hold.expires_at <= now;
    due.then_some(Reverse((hold.expires_at, Due::Hold(hold.seq, hold.id))))
}

impl State {
    fn due(&self, now: DateTime<Utc>) -> impl Iterator<Item = Reverse<(DateTime<Utc>, Due)>> {
        let holds = self.holds.values().filter_map(move |hold| due_hold(hold, now));
        holds.chain(self.grants.values().filter_map(move |grant| due_grant(grant, self.erased, now)))
    }

    /// Whether something fell due by `now`, so that a sweep would write entries.
    pub fn lapse_due(&self, now: DateTime<Utc>) -> bool {
        self.due(now).next().is_some()
    }

    /// What the account has at `now`, with everything lapsed in memory that fell due by then. Nothing is written.
    ///
    /// # Errors
    /// Where a due hold's grants are not in the state, or a sum leaves the range of any balance.
    pub fn lapsed_view(&self, now: DateTime<Utc>) -> Result<LapsedView, Refusal> {
        let mut draft = Draft::new(self, None, now);
        draft.lapse()?;
        let (head, grants, holds) = draft.into_changed();
        Ok(LapsedView { available: head.available, held: head.held, debt: head.debt, grants, holds })
    }
}

impl Draft<'_> {
    /// Writes what fell due, each at its own instant, and makes the draft ready for its main entry.
    pub fn lapse(&mut self) -> Result<(), Refusal> {
        let mut agenda: Agenda = self.state.due(self.now).collect();
        while let Some(Reverse((at, due))) = agenda.pop() {
            self.at = at;
            match due {
                Due::Hold(_, id) => self.lapse_hold(id, &mut agenda)?,
                Due::Grant(_, id) if self.erased => self.close_out(&[id])?,
                Due::Grant(_, id) => self.expire(id)?,
            }
        }
        self.at = self.now;
        self.phase = Phase::Main;
        Ok(())
    }

    fn lapse_hold(&mut self, id: HoldId, agenda: &mut Agenda) -> Result<(), Refusal> {
        let hold = self.known_hold(id)?.clone();
        self.end_hold(&hold, HoldStatus::Expired)?;
        // A grant that was reserved whole had nothing to lapse until now. What came back to it is due with the grant:
        // at once where it has ended, else at its own end.
        self.came_back.clear();
        for part in &hold.parts {
            let grant = self.known_grant(part.grant)?;
            agenda.extend(due_grant(grant, self.erased, self.now));
        }
        Ok(())
    }
}
