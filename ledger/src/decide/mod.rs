//! Deciding: the pure core. No database, no clock, no random numbers.
//!
//! [`decide`] takes what is known of an account, one command and the instant, and answers with the entry set
//! to write and what changes, or with a refusal. It never changes the state it is given: [`State::apply`]
//! does, once a decision stands, so that the next command of the round sees it.
//!
//! To add a verb: a file here with one function on the draft, its branch in [`decide`], the facts it reads
//! in [`Needs`], and tests that name its exact lines.

mod account;
mod adjust;
mod apply;
mod bounds;
mod charge;
mod clawback;
mod draft;
mod give_back;
mod grant;
mod hold;
mod job;
mod lapse;
mod pen;
mod refund;
mod release;
mod restore;
mod settle;
mod spend;
mod spread;
#[cfg(test)]
pub(crate) mod tests;
mod void;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use self::adjust::Adjustment;
use self::draft::{Author, Draft};
use self::grant::NewGrant;
use crate::account::{AccountStatus, Head};
use crate::command::{CallFields, Command, JobKind, KeyName, Verb};
use crate::credits::Credits;
use crate::entry::{Entry, EntrySet, Use};
use crate::grant::Grant;
use crate::hold::Hold;
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::policy::Policy;
use crate::quota::{Quota, Subject, Window};
use crate::refusal::{Missing, Refusal};

/// What is known of one account when its commands are decided. Loaded under the account's lock; complete for
/// the facts that [`Needs`] of the round's commands name, and for all live or due grants and open holds.
#[derive(Clone, Debug)]
pub struct State {
    pub account: AccountId,
    pub status: AccountStatus,
    pub policy: Policy,
    pub time_zone: Tz,
    /// Words of the account were erased: what comes back is closed out in the same set.
    pub erased: bool,
    pub head: Head,
    /// All grants that have something left or reserved, and those that the commands' facts touch.
    pub grants: BTreeMap<GrantId, Grant>,
    /// All holds stored as open, and those the commands name.
    pub holds: BTreeMap<HoldId, Hold>,
    /// Entries the commands name (refunds), with what was given back of each.
    pub originals: BTreeMap<Seq, Original>,
    /// Clawbacks of the grants whose restore is asked for, oldest first.
    pub clawbacks: BTreeMap<GrantId, Vec<Original>>,
    /// Lines of this account that paid debt out of a grant which has not got all of that back; oldest first, from
    /// whatever time. Their grants are in `grants`. Asked for by refunds and restores only.
    pub debt_payments: Vec<DebtPayment>,
    /// The entries of the jobs that the commands name: of several charges or holds the newest. All holds of these
    /// jobs are in `holds`.
    pub jobs: BTreeMap<(String, JobKind), JobEntry>,
    pub quotas: Vec<Quota>,
    /// Use by subject and window, keyed by the window's first instant.
    pub uses: BTreeMap<(Subject, Window, DateTime<Utc>), Credits>,
    /// The keys of the commands that are taken already.
    pub keys: BTreeMap<KeyName, KeyUse>,
    /// The VOID entry of each grant named by a void, if there is one.
    pub voids: BTreeMap<GrantId, Seq>,
}

impl State {
    /// An open account without grants, holds and facts, as it is before its first entry.
    pub fn empty(account: AccountId, policy: Policy, time_zone: Tz) -> State {
        State {
            account,
            status: AccountStatus::Open,
            policy,
            time_zone,
            erased: false,
            head: Head::empty(),
            grants: BTreeMap::new(),
            holds: BTreeMap::new(),
            originals: BTreeMap::new(),
            clawbacks: BTreeMap::new(),
            debt_payments: Vec::new(),
            jobs: BTreeMap::new(),
            quotas: Vec::new(),
            uses: BTreeMap::new(),
            keys: BTreeMap::new(),
            voids: BTreeMap::new(),
        }
    }
}

/// An entry whose parts can be given back. Parts are its debit lines, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Original {
    pub entry: Entry,
    /// Given back of each part so far; as long as the entry has debit lines.
    pub given_back: Vec<Credits>,
}

/// A line that paid debt out of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebtPayment {
    pub seq: Seq,
    pub grant: GrantId,
    pub amount: Credits,
}

/// A job's charge, hold, marker or refund: the main entry to replay, and its hold if it was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobEntry {
    pub seq: Seq,
    pub hold: Option<HoldId>,
    pub recorded_at: DateTime<Utc>,
}

/// A key that is taken: by which main entry, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    pub seq: Seq,
    pub content: [u8; 32],
}

/// What a command needs to be loaded beside the account's live grants and open holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub keys: BTreeSet<KeyName>,
    pub holds: BTreeSet<HoldId>,
    pub grants: BTreeSet<GrantId>,
    /// Originals of refunds.
    pub entries: BTreeSet<Seq>,
    /// Grants whose clawbacks are to be restored.
    pub clawbacks_of: BTreeSet<GrantId>,
    pub voids_of: BTreeSet<GrantId>,
    /// Jobs: their charge or hold, markers and refund; for `RefundJob` also every charge and settle that names the job, as
    /// an original.
    pub jobs: BTreeSet<String>,
    pub refund_jobs: BTreeSet<String>,
    pub subjects: BTreeSet<Subject>,
    /// A grant or a plus may move the ends of rolling grants, spent ones too.
    pub rolling: bool,
}

impl Needs {
    /// Adds what `command` needs.
    pub fn add(&mut self, command: &Command) {
        self.keys.extend(command.key);
        self.jobs.extend(command.call.job_id.clone());
        match &command.verb {
            Verb::Renew { hold, .. }
            | Verb::Settle { hold, .. }
            | Verb::Release { hold }
            | Verb::Reverse { hold, .. } => {
                self.holds.insert(*hold);
            }
            Verb::Refund { seq, .. } => {
                self.entries.insert(*seq);
            }
            Verb::Clawback { grant, .. } | Verb::Extend { grant, .. } => {
                self.grants.insert(*grant);
            }
            Verb::Restore { grant, .. } => {
                self.grants.insert(*grant);
                self.clawbacks_of.insert(*grant);
            }
            Verb::Void { grant } => {
                self.grants.insert(*grant);
                self.voids_of.insert(*grant);
            }
            Verb::Grant { .. } | Verb::Adjust { .. } => self.rolling = true,
            Verb::RefundJob => self.refund_jobs.extend(command.call.job_id.clone()),
            Verb::Charge { .. } | Verb::Hold { .. } => self.subjects.extend(Subject::of(&command.call)),
            _ => {}
        }
    }
}

/// What a command leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// To be written and applied.
    Post(Decision),
    /// The set whose main entry this is answers it. Nothing is written.
    Replay(Seq),
    /// Nothing was due: a sweep that finds nothing writes nothing.
    Nothing,
}

/// The entry set of an accepted command, and what changes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// `seq`, sets, times, lines, totals and answers are complete; `hash` and `words_digest` are not yet set.
    pub set: EntrySet,
    /// The head after the set, but for its hash.
    pub head: Head,
    pub status: AccountStatus,
    pub policy: Policy,
    /// Grants and holds that are new or changed, as the set left them.
    pub grants: Vec<Grant>,
    pub holds: Vec<Hold>,
    /// What of which job an entry of the set is, to be found again by rule 11.
    pub jobs: Vec<(String, JobKind, JobEntry)>,
    pub signals: Vec<Signal>,
}

/// What others want to know of a decision; written to the outbox in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Available went from ≥ 0 to below.
    BelowZero {
        seq: Seq,
    },
    /// Available came back to ≥ 0.
    AboveZero {
        seq: Seq,
    },
    /// Available went from at or above the policy's `low_balance` to below it.
    ThresholdCrossed {
        seq: Seq,
        threshold: Credits,
        available: Credits,
    },
    GrantMade {
        seq: Seq,
        grant: GrantId,
    },
    LateSettle {
        seq: Seq,
        hold: HoldId,
    },
    Lapsed {
        seq: Seq,
        grant: GrantId,
        amount: Credits,
    },
}

/// What an account has at an instant, with everything lapsed in memory that fell due by then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LapsedView {
    pub available: Credits,
    pub held: Credits,
    pub debt: Credits,
    /// Grants and holds that the lapses changed, as they left them.
    pub grants: Vec<Grant>,
    pub holds: Vec<Hold>,
}

/// Decides one command on one account. `now` is the greater of the clock and the head's `recorded_at`.
///
/// The order is fixed: the key, then what fell due, then the job, then the verb's own checks. A refusal and a
/// replay write nothing, what fell due included.
///
/// # Errors
/// The refusal, in the order of the API's table: the amount, the state of the account, the balance.
pub fn decide(state: &State, command: &Command, now: DateTime<Utc>) -> Result<Ruling, Refusal> {
    let stamp = command.stamp();
    if let Some(stamp) = stamp
        && let Some(used) = state.keys.get(&(stamp.origin, stamp.key))
    {
        return if used.content == stamp.content {
            Ok(Ruling::Replay(used.seq))
        } else {
            Err(Refusal::KeyReused)
        };
    }
    match (matches!(command.verb, Verb::Open { .. }), state.head.seq == Seq(0)) {
        (true, false) => return Err(Refusal::AlreadyExists { account: state.account }),
        (false, true) => return Err(Refusal::NotFound { what: Missing::Account }),
        _ => {}
    }
    let mut draft = Draft::new(state, Some(Author { command, stamp }), now);
    draft.lapse()?;
    if let Some(seq) = job::replayed(&draft, command)? {
        return Ok(Ruling::Replay(seq));
    }
    enact(&mut draft, &command.verb)?;
    draft.finish()
}

fn enact(draft: &mut Draft, verb: &Verb) -> Result<(), Refusal> {
    match verb {
        Verb::Open { policy, time_zone, .. } => account::open(draft, policy, time_zone),
        Verb::Grant { id, amount, pool, expires, source } => {
            let new = NewGrant {
                id: *id,
                amount: *amount,
                pool: *pool,
                expires: *expires,
                source: source.as_ref(),
            };
            grant::grant(draft, new)
        }
        Verb::Charge { amount } => charge::charge(draft, *amount),
        Verb::Hold { id, amount, expires_in_s } => hold::place(draft, *id, *amount, *expires_in_s),
        Verb::Renew { hold, expires_in_s } => hold::renew(draft, *hold, *expires_in_s),
        Verb::Settle { hold, amount } => settle::settle(draft, *hold, *amount),
        Verb::Release { hold } => release::release(draft, *hold),
        Verb::Reverse { hold, outcome } => release::reverse(draft, *hold, *outcome),
        Verb::Refund { seq, amount } => refund::refund(draft, *seq, *amount),
        Verb::Clawback { grant, amount, payment_ref } => {
            clawback::clawback(draft, *grant, *amount, payment_ref.as_ref())
        }
        Verb::Restore { grant, amount, payment_ref } => {
            restore::restore(draft, *grant, *amount, payment_ref.as_ref())
        }
        Verb::Void { grant } => void::void(draft, *grant),
        Verb::Extend { grant, expires_at } => void::extend(draft, *grant, *expires_at),
        Verb::Adjust { id, amount, code, pool, expires } => adjust::adjust(
            draft,
            Adjustment { id: *id, amount: *amount, code: *code, pool: *pool, expires: *expires },
        ),
        Verb::Mark { marker } => job::mark(draft, *marker),
        Verb::RefundJob => job::refund_job(draft),
        Verb::SetStatus { status } => account::set_status(draft, *status),
        Verb::SetPolicy { policy } => account::set_policy(draft, policy),
        Verb::Erase => account::erase(draft),
        // What fell due is all there is to write.
        Verb::Lapse => Ok(()),
    }
}

/// A change of use, where the call names somebody whom a quota can bind.
fn usage(call: &CallFields, at: DateTime<Utc>, amount: Credits) -> Option<Use> {
    (call.member.is_some() || call.key_ref.is_some()).then_some(Use { at, amount })
}
