//! The figures of grants and holds, as the model has them and as a subject shows them, to be compared.

use std::collections::BTreeMap;

use ledger::Credits;
use ledger::grant::{Grant, Pool};
use ledger::hold::{Hold, HoldStatus};
use ledger::ids::GrantId;

use crate::model::{self, Fact, Instant, Micro, Model};

#[derive(Debug, PartialEq)]
pub struct GrantFigures {
    pub id: GrantId,
    seq: i64,
    pool: Pool,
    amount: Micro,
    remaining: Micro,
    reserved: Micro,
    expires: Option<Instant>,
    rolling: bool,
    voided: Option<Instant>,
    lapsed: Micro,
    lapse_taken: Micro,
    clawed_back: Micro,
    restored: Micro,
    paid_to_debt: Micro,
    given_back_for_debt: Micro,
}

impl GrantFigures {
    /// What is not kept with the model's grants is added up over all its facts.
    pub fn ours(model: &Model) -> Vec<GrantFigures> {
        let mut all: Vec<GrantFigures> = model.book.grants.iter().map(GrantFigures::bare).collect();
        let place: BTreeMap<GrantId, usize> =
            all.iter().enumerate().map(|(i, grant)| (grant.id, i)).collect();
        for fact in model.events.iter().flat_map(|event| &event.facts) {
            match *fact {
                Fact::Lapsed(id, n) => all[place[&id]].lapsed += n,
                Fact::LapseTaken(id, n) => all[place[&id]].lapse_taken += n,
                Fact::LapseReturned(id, n) => all[place[&id]].lapse_taken -= n,
                Fact::Clawed(id, n) => all[place[&id]].clawed_back += n,
                Fact::Restored(id, n) => all[place[&id]].restored += n,
                Fact::DebtPaid(Some(id), n) => all[place[&id]].paid_to_debt += n,
                Fact::GivenBackForDebt(id, n) => all[place[&id]].given_back_for_debt += n,
                _ => {}
            }
        }
        all
    }

    fn bare(grant: &model::Grant) -> GrantFigures {
        GrantFigures {
            id: grant.id,
            seq: grant.seq,
            pool: grant.pool,
            amount: grant.amount,
            remaining: grant.remaining,
            reserved: grant.reserved,
            expires: grant.expires,
            rolling: grant.rolling,
            voided: grant.voided,
            lapsed: 0,
            lapse_taken: 0,
            clawed_back: 0,
            restored: 0,
            paid_to_debt: 0,
            given_back_for_debt: 0,
        }
    }

    pub fn shown(grant: &Grant) -> GrantFigures {
        let n = |credits: Credits| credits.micros();
        GrantFigures {
            id: grant.id,
            seq: grant.seq.0,
            pool: grant.pool,
            amount: n(grant.amount),
            remaining: n(grant.remaining),
            reserved: n(grant.reserved),
            expires: grant.expires_at,
            rolling: grant.rolling,
            voided: grant.voided_at,
            lapsed: n(grant.lapsed),
            lapse_taken: n(grant.lapse_taken),
            clawed_back: n(grant.clawed_back),
            restored: n(grant.restored),
            paid_to_debt: n(grant.paid_to_debt),
            given_back_for_debt: n(grant.given_back_for_debt),
        }
    }
}

#[derive(Debug, PartialEq)]
pub struct HoldFigures {
    seq: i64,
    amount: Micro,
    parts: Vec<(GrantId, Micro)>,
    status: HoldStatus,
    placed: Instant,
    expires: Instant,
    lifetime_s: u32,
    settled: Micro,
    released: Micro,
    reversed: Micro,
    needs_review: bool,
    ended_by: Option<i64>,
    late_settle: Option<i64>,
}

impl HoldFigures {
    pub fn ours(hold: &model::Hold) -> HoldFigures {
        HoldFigures {
            seq: hold.seq,
            amount: hold.amount,
            parts: hold.parts.clone(),
            status: hold.status,
            placed: hold.placed,
            expires: hold.expires,
            lifetime_s: hold.lifetime_s,
            settled: hold.settled,
            released: hold.released,
            reversed: hold.reversed,
            needs_review: hold.unknown,
            ended_by: hold.ended_by,
            late_settle: hold.late,
        }
    }

    pub fn shown(hold: &Hold) -> HoldFigures {
        let n = |credits: Credits| credits.micros();
        HoldFigures {
            seq: hold.seq.0,
            amount: n(hold.amount),
            parts: hold.parts.iter().map(|part| (part.grant, n(part.amount))).collect(),
            status: hold.status,
            placed: hold.placed_at,
            expires: hold.expires_at,
            lifetime_s: hold.lifetime_s,
            settled: n(hold.settled),
            released: n(hold.released),
            reversed: n(hold.reversed),
            needs_review: hold.needs_review,
            ended_by: hold.ended_by.map(|seq| seq.0),
            late_settle: hold.late_settle.map(|seq| seq.0),
        }
    }
}
