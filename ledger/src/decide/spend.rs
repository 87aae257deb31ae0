//! Rule 3: in which order grants are spent, and what a forced debit does when they are not enough.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::draft::Draft;
use super::pen::Pen;
use crate::credits::Credits;
use crate::grant::Grant;
use crate::hold::HoldPart;
use crate::ids::GrantId;
use crate::refusal::Refusal;

impl Draft<'_> {
    /// What live grants give of `amount`, in spend order; the sum is below `amount` where they have less.
    ///
    /// Mostly the first grant has enough, and one pass finds it. Else a heap, not a sort: an account with thousands
    /// of grants still spends from the first few.
    pub fn plan_spend(&self, amount: Credits) -> Result<Vec<HoldPart>, Refusal> {
        if amount.is_zero() {
            return Ok(Vec::new());
        }
        match self.spendable().min_by_key(|grant| grant.spend_order()) {
            None => Ok(Vec::new()),
            Some(first) if first.remaining >= amount => Ok(vec![HoldPart { grant: first.id, amount }]),
            Some(_) => self.plan_spend_of_many(amount),
        }
    }

    fn spendable(&self) -> impl Iterator<Item = &Grant> {
        self.all_grants().filter(|grant| !grant.remaining.is_zero() && self.is_live(grant))
    }

    fn plan_spend_of_many(&self, amount: Credits) -> Result<Vec<HoldPart>, Refusal> {
        let mut order: BinaryHeap<_> =
            self.spendable().map(|grant| Reverse((grant.spend_order(), SpendPart::of(grant)))).collect();
        let mut plan = Vec::new();
        let mut rest = amount;
        while rest.is_positive()
            && let Some(Reverse((_, part))) = order.pop()
        {
            let taken = part.remaining.min(rest);
            rest = rest.minus(taken)?;
            plan.push(HoldPart { grant: part.grant, amount: taken });
        }
        Ok(plan)
    }

    /// A debit that is never refused: every live remainder in spend order, then debt.
    pub fn force(&mut self, pen: &mut Pen, amount: Credits) -> Result<(), Refusal> {
        let mut rest = amount;
        for part in self.plan_spend(amount)? {
            rest = rest.minus(part.amount)?;
            self.take(pen, part.grant, part.amount)?;
        }
        self.make_debt(pen, rest)
    }
}

/// What the heap carries beside the spend order, which is unique by its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SpendPart {
    grant: GrantId,
    remaining: Credits,
}

impl SpendPart {
    fn of(grant: &Grant) -> SpendPart {
        SpendPart { grant: grant.id, remaining: grant.remaining }
    }
}
