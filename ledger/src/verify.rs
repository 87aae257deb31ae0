//! Verify: recomputes an account from its journal and names the first bad row.
//!
//! [`Audit`] reads the entries of one account in order and knows nothing of `decide`: it follows the chain, adds up
//! lines, holds each kind against the lines it may have ([`shape`]), makes grants and holds anew ([`rebuilt`]), and at
//! the end compares every column with the stored head, grants and holds. To check one thing more, add it where its
//! facts are: in [`Audit::entry`] for what an entry says, in [`Audit::finish`] for what is stored beside the journal.
//!
//! What the journal does not hold cannot be rebuilt, and is not guessed at:
//! - `grants.rolling`: the end of a grant is in the journal, not the rule it came from. A grant whose end moved with a later
//!   top-up must say that it rolls; of any other nothing is known.
//! - `holds.lifetime_s`: it comes from the policy as it was. The database itself refuses an end beyond it.
//! - `accounts.created_at`, which is when the row was made; entry 1 says when the account was opened.
//! - The rules of policies, quotas, references, profiles, words and addresses, which are no part of the books. Words that
//!   are still there are held against their digest.

mod rebuilt;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use self::rebuilt::{Fault, Grants, Holds, Part, raised, wrong};
use crate::account::{AccountStatus, Head};
use crate::chain;
use crate::credits::Credits;
use crate::entry::{DebtMark, Entry, Kind, LedgerAccount, Line};
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

/// The first named field in which a stored row is not what the journal says.
macro_rules! differing {
    ($stored:expr, $journal:expr; $($field:ident),+ $(,)?) => {{
        let (stored, journal) = ($stored, $journal);
        let mut found = None;
        $(
            if found.is_none() && stored.$field != journal.$field {
                found = Some(format!(
                    "says {:?} in {}, and the journal {:?}", stored.$field, stringify!($field), journal.$field
                ));
            }
        )+
        found
    }};
}
/// What an account's row says beside its head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Particulars {
    pub status: AccountStatus,
    pub policy: String,
    pub time_zone: String,
    pub erased_at: Option<DateTime<Utc>>,
}

/// The recomputation of one account.
pub(crate) struct Audit {
    account: AccountId,
    /// The head as the entries so far leave it.
    head: Head,
    particulars: Particulars,
    /// The first entry of the current set, and whether its main entry was there.
    set_seq: Seq,
    set_has_main: bool,
    grants: Grants,
    holds: Holds,
    /// The entries that others give back of; only of these the parts are kept.
    reversed: BTreeSet<Seq>,
    originals: BTreeMap<Seq, Vec<Part>>,
    /// The grant of each clawback among them.
    clawbacks: BTreeMap<Seq, GrantId>,
    pub lines: u64,
}

impl Audit {
    /// `reversed` are the entries that others of the account name as what they reverse.
    pub(crate) fn new(account: AccountId, reversed: BTreeSet<Seq>) -> Audit {
        Audit {
            account,
            head: Head::empty(),
            particulars: Particulars::default(),
            set_seq: Seq(0),
            set_has_main: false,
            grants: Grants::default(),
            holds: Holds::default(),
            reversed,
            originals: BTreeMap::new(),
            clawbacks: BTreeMap::new(),
            lines: 0,
        }
    }

    pub(crate) fn account(&self) -> AccountId {
        self.account
    }

    pub(crate) fn seq(&self) -> Seq {
        self.head.seq
    }

    /// Takes the next entry. `words_digest` is recomputed where the words are still there.
    pub(crate) fn entry(&mut self, entry: &Entry, words_digest: Option<[u8; 32]>) -> Result<(), Problem> {
        let (account, seq) = (self.account, entry.seq);
        let problem = |what: String| Problem { account, seq: Some(seq), what };
        if seq != self.head.seq.next() {
            return Err(problem(format!("follows entry {}", self.head.seq)));
        }
        if entry.recorded_at < self.head.recorded_at || entry.effective_at < self.head.effective_at {
            return Err(problem("its time is before the entry before it".to_owned()));
        }
        if chain::hash(&self.head.hash, entry) != entry.hash {
            return Err(problem("the hash does not follow from the entry and the hash before it".to_owned()));
        }
        if let Some(digest) = words_digest
            && entry.words_digest != Some(digest)
        {
            return Err(problem("its words are not those that were digested".to_owned()));
        }
        if entry.set_seq == seq {
            self.close_set()?;
        }
        self.add(entry).map_err(|fault| match fault {
            Fault::Wrong(what) => problem(what),
            Fault::Overflow => problem("a sum leaves the range of credits".to_owned()),
        })?;
        self.head.seq = seq;
        self.head.hash = entry.hash;
        self.head.recorded_at = entry.recorded_at;
        self.head.effective_at = entry.effective_at;
        Ok(())
    }

    /// After each set debt and a live remainder do not stand together.
    fn close_set(&self) -> Result<(), Problem> {
        let beside = self.head.debt.is_positive().then(|| self.grants.live_remainder(self.head.recorded_at));
        let Some(grant) = beside.flatten() else { return Ok(()) };
        let what = format!(
            "leaves debt {} beside {} that grant {} has left",
            self.head.debt, grant.remaining, grant.id
        );
        Err(Problem { account: self.account, seq: Some(self.head.seq), what })
    }

    /// Adds the entry up.
    fn add(&mut self, entry: &Entry) -> Result<(), Fault> {
        self.set(entry)?;
        if let Some(what) = shape::fault(entry) {
            return wrong(what);
        }
        self.grants.announce(entry)?;
        let before = (self.head.available, self.head.held);
        let mut rest = Credits::ZERO;
        for line in &entry.lines {
            self.lines += 1;
            rest = rest.plus(raised(line))?;
            self.line(entry.kind, line)?;
        }
        if !rest.is_zero() {
            return wrong(format!("debits and credits differ by {rest}"));
        }
        self.figures(entry, before)?;
        self.holds.entry(entry)?;
        self.particulars(entry);
        self.reverses(entry)
    }

    fn set(&mut self, entry: &Entry) -> Result<(), Fault> {
        if entry.set_seq == entry.seq {
            self.set_seq = entry.seq;
            self.set_has_main = false;
        }
        if entry.set_seq != self.set_seq {
            return wrong("says another set than the entries around it");
        }
        if entry.is_main && self.set_has_main {
            return wrong("is a second main entry of its set");
        }
        self.set_has_main |= entry.is_main;
        Ok(())
    }

    fn line(&mut self, kind: Kind, line: &Line) -> Result<(), Fault> {
        let raised = raised(line);
        let head = &mut self.head;
        let after = match line.ledger_account {
            LedgerAccount::Available => {
                head.available = head.available.plus(raised)?;
                if line.debt != DebtMark::None {
                    head.debt = head.debt.minus(raised)?;
                }
                Some(head.available)
            }
            LedgerAccount::Held => {
                head.held = head.held.plus(raised)?;
                Some(head.held)
            }
            // A write-off debits it, and what comes back of one credits it.
            LedgerAccount::BadDebt => {
                head.written_off = head.written_off.minus(raised)?;
                None
            }
            _ => None,
        };
        if line.balance_after != after {
            return wrong(format!("a line says {:?} after it, and it is {after:?}", line.balance_after));
        }
        if head.debt.is_negative() || head.written_off.is_negative() {
            return wrong("more debt is paid or given back than there is");
        }
        self.grants.line(kind, line)
    }

    /// What the entry says of balances and running totals follows from its lines.
    fn figures(&mut self, entry: &Entry, before: (Credits, Credits)) -> Result<(), Fault> {
        let head = &mut self.head;
        let said = (entry.available_after, entry.held_after, entry.debt_after);
        let is = (head.available, head.held, head.debt);
        if said != is {
            return wrong(format!("says available, held, debt {said:?} after it, and they are {is:?}"));
        }
        let change = head.available.plus(head.held)?.minus(before.0.plus(before.1)?)?;
        if entry.amount != change {
            return wrong(format!("says a change of {} and changes {change}", entry.amount));
        }
        let moved = match entry.kind {
            Kind::AuthHold | Kind::AuthRelease | Kind::AuthReversal => head.held.minus(before.1)?,
            _ => Credits::ZERO,
        };
        if entry.moved != moved {
            return wrong(format!("says {} moved and moves {moved}", entry.moved));
        }
        let index = entry.kind.index();
        head.totals.amount[index] = head.totals.amount[index].plus(change)?;
        head.totals.moved[index] = head.totals.moved[index].plus(moved)?;
        if (entry.amount_total, entry.moved_total) != (head.totals.amount[index], head.totals.moved[index]) {
            return wrong("its running totals do not follow");
        }
        Ok(())
    }

    /// State, policy, zone and erasure as the notes say them.
    fn particulars(&mut self, entry: &Entry) {
        if entry.kind != Kind::Note {
            return;
        }
        let (known, answer) = (&mut self.particulars, &entry.answer);
        known.status = answer.status.unwrap_or(known.status);
        known.policy = answer.policy.clone().unwrap_or_else(|| std::mem::take(&mut known.policy));
        known.time_zone = answer.time_zone.clone().unwrap_or_else(|| std::mem::take(&mut known.time_zone));
        known.erased_at = self.grants.erased_at;
    }

    /// What is given back of an entry, and of each of its parts, never exceeds it.
    fn reverses(&mut self, entry: &Entry) -> Result<(), Fault> {
        if entry.kind == Kind::Clawback {
            let grant = self.grants.claw(entry)?;
            self.clawbacks.insert(entry.seq, grant);
        }
        if matches!(entry.kind, Kind::Consume | Kind::Settle | Kind::Clawback)
            && self.reversed.contains(&entry.seq)
        {
            let part = |line: &Line| Part {
                drawn: line.grant.filter(|_| line.ledger_account.is_customers()),
                amount: line.amount,
                given_back: Credits::ZERO,
            };
            self.originals.insert(entry.seq, entry.debit_lines().map(part).collect());
        }
        if matches!(entry.kind, Kind::Refund | Kind::Restore) {
            return self.gives_back(entry);
        }
        Ok(())
    }

    fn gives_back(&mut self, entry: &Entry) -> Result<(), Fault> {
        let found = entry.reverses.and_then(|seq| Some((seq, self.originals.get_mut(&seq)?)));
        let Some((seq, parts)) = found else { return wrong("names no entry that can be given back") };
        let clawback = self.clawbacks.get(&seq).copied();
        let amount = Credits::sum(entry.debit_lines().map(|line| line.amount))?;
        let spread = &entry.answer.spread;
        if clawback.is_some() != (entry.kind == Kind::Restore)
            || spread.len() != parts.len()
            || Credits::sum(spread.iter().copied())? != amount
        {
            return wrong(format!("does not say what each part of entry {seq} gets back"));
        }
        for (part, share) in parts.iter_mut().zip(spread) {
            part.given_back = part.given_back.plus(*share)?;
            if share.is_negative() || part.given_back > part.amount {
                let (given, was) = (part.given_back, part.amount);
                return wrong(format!("gives back {given} of a part of entry {seq}, which took {was}"));
            }
        }
        self.grants.given_for_debt(entry, parts)?;
        match clawback {
            Some(grant) => self.grants.restore(grant, amount),
            None => Ok(()),
        }
    }

    /// Compares with what is stored beside the journal.
    pub(crate) fn finish(
        &self,
        head: &Head,
        particulars: &Particulars,
        grants: &[Grant],
        holds: &[Hold],
    ) -> Result<(), Problem> {
        self.close_set()?;
        let problem = |what: String| Problem { account: self.account, seq: None, what };
        self.finish_head(head, particulars).map_err(problem)?;
        self.finish_grants(grants).map_err(problem)?;
        self.finish_holds(holds).map_err(problem)?;
        self.finish_sums(grants, holds).map_err(problem)
    }

    fn finish_head(&self, head: &Head, particulars: &Particulars) -> Result<(), String> {
        let columns = differing!(head, &self.head; seq, hash, available, held, debt, written_off, recorded_at, effective_at, totals);
        refuse("the account's row", columns)?;
        if self.head.seq == Seq(0) {
            return Ok(());
        }
        let columns = differing!(particulars, &self.particulars; status, policy, time_zone, erased_at);
        refuse("the account's row", columns)
    }

    fn finish_grants(&self, grants: &[Grant]) -> Result<(), String> {
        for grant in grants {
            let row = format!("grant {}", grant.id);
            let Some(known) = self.grants.all.get(&grant.id) else {
                return Err(format!("{row} is stored, and no entry made it"));
            };
            let columns = differing!(grant, &known.grant; seq, pool, amount, remaining, reserved, expires_at, voided_at, source,
                granted_at, lapsed, lapse_taken, clawed_back, restored, paid_to_debt, given_back_for_debt);
            refuse(&row, columns)?;
            if known.was_rolled && !grant.rolling {
                return Err(format!("{row} says that it does not roll, and its end moved with a top-up"));
            }
            if grant.remaining > grant.amount
                || grant.lapse_taken > grant.lapsed
                || grant.restored > grant.clawed_back
                || grant.given_back_for_debt > grant.paid_to_debt
            {
                return Err(format!("{row} has got back more than it gave"));
            }
        }
        let stored: BTreeSet<GrantId> = grants.iter().map(|grant| grant.id).collect();
        match self.grants.all.keys().find(|id| !stored.contains(id)) {
            Some(missing) => Err(format!("grant {missing} is in the journal and not stored")),
            None => Ok(()),
        }
    }

    fn finish_holds(&self, holds: &[Hold]) -> Result<(), String> {
        for hold in holds {
            let row = format!("hold {}", hold.id);
            let Some(known) = self.holds.0.get(&hold.id) else {
                return Err(format!("{row} is stored, and no entry placed it"));
            };
            let columns = differing!(hold, known; seq, amount, status, parts, placed_at, renewed_at, expires_at, settled, released,
                reversed, needs_review, ended_by, late_settle, call);
            refuse(&row, columns)?;
        }
        let stored: BTreeSet<_> = holds.iter().map(|hold| hold.id).collect();
        match self.holds.0.keys().find(|id| !stored.contains(id)) {
            Some(missing) => Err(format!("hold {missing} is in the journal and not stored")),
            None => Ok(()),
        }
    }

    /// What the rows add up to among themselves.
    fn finish_sums(&self, grants: &[Grant], holds: &[Hold]) -> Result<(), String> {
        let sum = |amounts: &mut dyn Iterator<Item = Credits>| {
            Credits::sum(amounts).map_err(|overflow| overflow.to_string())
        };
        let remainders = sum(&mut grants.iter().map(|grant| grant.remaining))?;
        if remainders.minus(self.head.debt) != Ok(self.head.available) {
            return Err(format!(
                "grants have {remainders} left and debt is {}; available is {}",
                self.head.debt, self.head.available
            ));
        }
        let mut reserved: BTreeMap<GrantId, Credits> = BTreeMap::new();
        for hold in holds {
            let parts = sum(&mut hold.parts.iter().map(|part| part.amount))?;
            let ended = sum(&mut [hold.settled, hold.released, hold.reversed].into_iter())?;
            if parts != hold.amount || hold.status != HoldStatus::Open && ended != hold.amount {
                let (id, amount) = (hold.id, hold.amount);
                return Err(format!(
                    "hold {id} is {amount}, its parts are {parts}, and it ended with {ended}"
                ));
            }
            for part in hold.parts.iter().filter(|_| hold.status == HoldStatus::Open) {
                let sum = reserved.entry(part.grant).or_default();
                *sum = sum.plus(part.amount).map_err(|overflow| overflow.to_string())?;
            }
        }
        let differs = |grant: &&Grant| grant.reserved != reserved.get(&grant.id).copied().unwrap_or_default();
        match grants.iter().find(differs) {
            Some(grant) => {
                Err(format!("open holds have not the {} that grant {} says", grant.reserved, grant.id))
            }
            None => Ok(()),
        }
    }
}

fn refuse(row: &str, difference: Option<String>) -> Result<(), String> {
    difference.map_or(Ok(()), |difference| Err(format!("{row} {difference}")))
}
