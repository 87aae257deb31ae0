//! Verify: recomputes an account from its journal and names the first bad row.
//!
//! [`Audit`] reads the entries of one account in order and knows nothing of `decide`: it adds up lines, follows the
//! chain, and at the end compares with the stored head, grants and holds. To check one thing more, add it where its
//! facts are: in [`Audit::entry`] for what an entry says, in [`Audit::finish`] for what is stored beside the journal.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use crate::account::{Head, KindTotals};
use crate::chain;
use crate::credits::{Credits, Overflow};
use crate::entry::{DebtMark, Direction, Entry, Kind, LedgerAccount, Line};
use crate::grant::Grant;
use crate::hold::{Hold, HoldStatus};
use crate::ids::{AccountId, GrantId, Seq};

/// Something that does not add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub account: AccountId,
    /// The first entry that shows it; `None` where it is about what is stored beside the journal.
    pub seq: Option<Seq>,
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "account {}, entry {seq}: {}", self.account, self.what),
            None => write!(f, "account {}: {}", self.account, self.what),
        }
    }
}

/// What verifying looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub accounts: u64,
    pub entries: u64,
    pub lines: u64,
    /// Of each account at most one: what is behind a bad row proves nothing. Then what belongs to nobody.
    pub problems: Vec<Problem>,
}

impl VerifyReport {
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// The recomputation of one account.
pub(crate) struct Audit {
    account: AccountId,
    seq: Seq,
    hash: [u8; 32],
    available: Credits,
    held: Credits,
    debt: Credits,
    recorded_at: DateTime<Utc>,
    effective_at: DateTime<Utc>,
    totals: KindTotals,
    /// Remaining and reserved of each grant, from the lines that name it.
    grants: BTreeMap<GrantId, (Credits, Credits)>,
    /// What was given back of each reversed entry, and what these entries took.
    given_back: BTreeMap<Seq, Credits>,
    taken: BTreeMap<Seq, Credits>,
    pub lines: u64,
}

impl Audit {
    pub(crate) fn new(account: AccountId) -> Audit {
        let empty = Head::empty();
        Audit {
            account,
            seq: Seq(0),
            hash: empty.hash,
            available: Credits::ZERO,
            held: Credits::ZERO,
            debt: Credits::ZERO,
            recorded_at: empty.recorded_at,
            effective_at: empty.effective_at,
            totals: KindTotals::default(),
            grants: BTreeMap::new(),
            given_back: BTreeMap::new(),
            taken: BTreeMap::new(),
            lines: 0,
        }
    }

    pub(crate) fn account(&self) -> AccountId {
        self.account
    }

    pub(crate) fn seq(&self) -> Seq {
        self.seq
    }

    /// Takes the next entry. `words_digest` is recomputed where the words are still there.
    pub(crate) fn entry(&mut self, entry: &Entry, words_digest: Option<[u8; 32]>) -> Result<(), Problem> {
        let (account, seq) = (self.account, entry.seq);
        let problem = |what: String| Problem { account, seq: Some(seq), what };
        if seq != self.seq.next() {
            return Err(problem(format!("follows entry {}", self.seq)));
        }
        if entry.recorded_at < self.recorded_at || entry.effective_at < self.effective_at {
            return Err(problem("its time is before the entry before it".to_owned()));
        }
        if chain::hash(&self.hash, entry) != entry.hash {
            return Err(problem("the hash does not follow from the entry and the hash before it".to_owned()));
        }
        if let Some(digest) = words_digest
            && entry.words_digest != Some(digest)
        {
            return Err(problem("its words are not those that were digested".to_owned()));
        }
        let added =
            self.add(entry).map_err(|Overflow| problem("a sum leaves the range of credits".to_owned()))?;
        if let Some(what) = added {
            return Err(problem(what));
        }
        self.seq = seq;
        self.hash = entry.hash;
        self.recorded_at = entry.recorded_at;
        self.effective_at = entry.effective_at;
        Ok(())
    }

    /// Adds the entry up; what does not add up, if anything.
    fn add(&mut self, entry: &Entry) -> Result<Option<String>, Overflow> {
        let (before_available, before_held) = (self.available, self.held);
        let mut rest = Credits::ZERO;
        for line in &entry.lines {
            self.lines += 1;
            rest = rest.plus(signed(line))?;
            if let Some(what) = self.line(line)? {
                return Ok(Some(what));
            }
        }
        if !rest.is_zero() {
            return Ok(Some(format!("debits and credits differ by {rest}")));
        }
        if let Some(what) = self.after(entry) {
            return Ok(Some(what));
        }
        let change = self.available.plus(self.held)?.minus(before_available.plus(before_held)?)?;
        if entry.amount != change {
            return Ok(Some(format!("says a change of {} and changes {change}", entry.amount)));
        }
        let into_held = self.held.minus(before_held)?;
        if !entry.moved.is_zero() && entry.moved != into_held {
            return Ok(Some(format!("says {} moved and moves {into_held}", entry.moved)));
        }
        self.totals(entry)?;
        if entry.amount_total != self.totals.amount[entry.kind.index()]
            || entry.moved_total != self.totals.moved[entry.kind.index()]
        {
            return Ok(Some("its running totals do not follow".to_owned()));
        }
        self.reversed(entry)
    }

    fn line(&mut self, line: &Line) -> Result<Option<String>, Overflow> {
        let raised = signed(line).negated();
        let after = match line.ledger_account {
            LedgerAccount::Available => {
                self.available = self.available.plus(raised)?;
                match (line.debt, line.grant) {
                    (DebtMark::None, Some(grant)) => {
                        let (remaining, _) = self.grants.entry(grant).or_default();
                        *remaining = remaining.plus(raised)?;
                        if remaining.is_negative() {
                            return Ok(Some(format!("grant {grant} falls below zero")));
                        }
                    }
                    (DebtMark::None, None) => {
                        return Ok(Some("a line of available names neither grant nor debt".to_owned()));
                    }
                    (DebtMark::Makes | DebtMark::Pays, _) => self.debt = self.debt.minus(raised)?,
                }
                Some(self.available)
            }
            LedgerAccount::Held => {
                self.held = self.held.plus(raised)?;
                let Some(grant) = line.grant else {
                    return Ok(Some("a line of held names no grant".to_owned()));
                };
                let (_, reserved) = self.grants.entry(grant).or_default();
                *reserved = reserved.plus(raised)?;
                if reserved.is_negative() {
                    return Ok(Some(format!("what is reserved of grant {grant} falls below zero")));
                }
                Some(self.held)
            }
            _ => None,
        };
        if line.balance_after != after {
            return Ok(Some(format!("a line says {:?} after it, and it is {after:?}", line.balance_after)));
        }
        Ok(self.debt.is_negative().then(|| "more debt is paid than there is".to_owned()))
    }

    fn after(&self, entry: &Entry) -> Option<String> {
        let said = (entry.available_after, entry.held_after, entry.debt_after);
        let is = (self.available, self.held, self.debt);
        (said != is).then(|| format!("says available, held, debt {said:?} after it, and they are {is:?}"))
    }

    fn totals(&mut self, entry: &Entry) -> Result<(), Overflow> {
        let index = entry.kind.index();
        self.totals.amount[index] = self.totals.amount[index].plus(entry.amount)?;
        self.totals.moved[index] = self.totals.moved[index].plus(entry.moved)?;
        Ok(())
    }

    /// What was given back of an entry never exceeds it.
    fn reversed(&mut self, entry: &Entry) -> Result<Option<String>, Overflow> {
        if matches!(entry.kind, Kind::Consume | Kind::Settle | Kind::Clawback) {
            let taken = Credits::sum(entry.debit_lines().map(|line| line.amount))?;
            self.taken.insert(entry.seq, taken);
        }
        let (Kind::Refund | Kind::Restore, Some(reverses)) = (entry.kind, entry.reverses) else {
            return Ok(None);
        };
        let back = Credits::sum(entry.debit_lines().map(|line| line.amount))?;
        let sum = self.given_back.entry(reverses).or_default();
        *sum = sum.plus(back)?;
        let taken = self.taken.get(&reverses).copied().unwrap_or_default();
        Ok((*sum > taken).then(|| format!("gives back {sum} of entry {reverses}, which took {taken}")))
    }

    /// Compares with what is stored beside the journal.
    pub(crate) fn finish(&self, head: &Head, grants: &[Grant], holds: &[Hold]) -> Result<(), Problem> {
        let problem = |what: String| Problem { account: self.account, seq: None, what };
        let stored =
            (head.seq, head.hash, head.available, head.held, head.debt, head.recorded_at, head.effective_at);
        let journal =
            (self.seq, self.hash, self.available, self.held, self.debt, self.recorded_at, self.effective_at);
        if stored != journal || head.totals != self.totals {
            let figures = format!(
                "head says entry {}, available {}, held {}, debt {}; the journal {}, {}, {}, {}",
                head.seq,
                head.available,
                head.held,
                head.debt,
                self.seq,
                self.available,
                self.held,
                self.debt
            );
            return Err(problem(figures));
        }
        self.finish_grants(grants).map_err(problem)?;
        self.finish_holds(grants, holds).map_err(problem)
    }

    fn finish_grants(&self, grants: &[Grant]) -> Result<(), String> {
        for grant in grants {
            let journal = self.grants.get(&grant.id).copied().unwrap_or_default();
            if (grant.remaining, grant.reserved) != journal {
                let (remaining, reserved) = journal;
                return Err(format!(
                    "grant {} says {} remaining and {} reserved; the journal {remaining} and {reserved}",
                    grant.id, grant.remaining, grant.reserved
                ));
            }
            if grant.remaining > grant.amount {
                return Err(format!("grant {} has more than was granted", grant.id));
            }
        }
        let stored: BTreeSet<GrantId> = grants.iter().map(|grant| grant.id).collect();
        if let Some(missing) = self.grants.keys().find(|id| !stored.contains(id)) {
            return Err(format!("grant {missing} is in the journal and not stored"));
        }
        let remainders =
            Credits::sum(grants.iter().map(|grant| grant.remaining)).map_err(|error| error.to_string())?;
        if remainders.minus(self.debt) != Ok(self.available) {
            return Err(format!(
                "grants have {remainders} left and debt is {}; available is {}",
                self.debt, self.available
            ));
        }
        if self.debt.is_positive() && remainders.is_positive() {
            return Err(format!("debt {} stands beside a remainder of {remainders}", self.debt));
        }
        Ok(())
    }

    fn finish_holds(&self, grants: &[Grant], holds: &[Hold]) -> Result<(), String> {
        let mut reserved: BTreeMap<GrantId, Credits> = BTreeMap::new();
        for hold in holds {
            let parts =
                Credits::sum(hold.parts.iter().map(|part| part.amount)).map_err(|error| error.to_string())?;
            let ended = Credits::sum([hold.settled, hold.released, hold.reversed])
                .map_err(|error| error.to_string())?;
            if parts != hold.amount {
                return Err(format!("the parts of hold {} are {parts} and it is {}", hold.id, hold.amount));
            }
            if hold.status == HoldStatus::Open {
                for part in &hold.parts {
                    let sum = reserved.entry(part.grant).or_default();
                    *sum = sum.plus(part.amount).map_err(|error| error.to_string())?;
                }
            } else if ended != hold.amount {
                return Err(format!("hold {} ended with {ended} of {}", hold.id, hold.amount));
            }
        }
        for grant in grants {
            let held = reserved.get(&grant.id).copied().unwrap_or_default();
            if grant.reserved != held {
                return Err(format!(
                    "open holds have {held} of grant {}, which says {}",
                    grant.id, grant.reserved
                ));
            }
        }
        Ok(())
    }
}

/// A debit is +, a credit −, so that an entry sums to 0.
fn signed(line: &Line) -> Credits {
    match line.direction {
        Direction::Debit => line.amount,
        Direction::Credit => line.amount.negated(),
    }
}
