//! Histories of commands from a seed.
//!
//! The generator runs the model beside itself, so that it can name holds that exist, spend exactly what is
//! there, and step to the very instant at which something ends. A history is complete in itself: running it
//! needs no generator.

use chrono::{DateTime, Duration, Utc};
use chrono_tz::Tz;
use ledger::Credits;
use ledger::account::AccountStatus;
use ledger::command::{
    Actor, ActorKind, CallFields, Command, Expiry, JobMarker, Origin, ReasonCode, ReverseOutcome, Verb,
    key_digest,
};
use ledger::entry::{Kind, Words};
use ledger::grant::Pool;
use ledger::hold::HoldStatus;
use ledger::ids::{AccountId, GrantId, HoldId, Seq};
use ledger::policy::{ExpiryRule, Overrun, Policy};
use ledger::quota::{Quota, Subject, Window};
use uuid::Uuid;

use crate::dice::Dice;
use crate::model::{Hold, Instant, Micro, Model, credits};

const ONE: Micro = 1_000_000;
/// Few and colliding values, so that grants, holds and debts often match to the last millionth.
const AMOUNTS: [Micro; 16] = [
    1,
    2,
    3,
    333_333,
    500_000,
    ONE,
    ONE + 1,
    2 * ONE,
    3 * ONE,
    5 * ONE,
    7 * ONE,
    10 * ONE,
    10 * ONE,
    33_333_333,
    100 * ONE,
    1_000 * ONE,
];

#[derive(Clone, Debug)]
pub struct Step {
    pub command: Command,
    /// The digest of the command, worked out once.
    pub content: [u8; 32],
    pub now: Instant,
}

#[derive(Clone, Debug)]
pub struct History {
    pub seed: u64,
    pub account: AccountId,
    pub policy: Policy,
    pub zone: Tz,
    pub quotas: Vec<Quota>,
    pub steps: Vec<Step>,
}

impl History {
    pub fn model(&self) -> Model {
        Model::new(self.account, self.policy.clone(), self.zone, self.quotas.clone())
    }
}

/// An id that sorts by its number and looks like the others.
fn id(seed: u64, number: u64) -> Uuid {
    let low = (u128::from(seed & 0xff_ffff_ffff) << 20) | u128::from(number & 0xf_ffff);
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 | low)
}

pub fn generate(seed: u64) -> History {
    let mut dice = Dice::new(seed);
    let account = AccountId(id(seed, 0));
    let policy = some_policy(&mut dice);
    let zone = dice.pick(&[Tz::UTC, Tz::Europe__Berlin, Tz::America__Sao_Paulo]);
    let quotas = some_quotas(&mut dice);
    let start =
        DateTime::<Utc>::from_timestamp(1_767_139_200, 0).unwrap() + Duration::hours(hours(&mut dice));
    let mut history = History { seed, account, policy, zone, quotas, steps: Vec::new() };
    let length = if dice.chance(20) { 1 + dice.below(200) } else { 5 + dice.below(90) };
    let rich = dice.chance(4);
    let pace = dice.weighted(&[50, 35, 15]);
    let mut weights = some_weights(&mut dice);
    if rich {
        weights[0] *= 5;
    }
    let model = history.model();
    let mut maker = Maker { seed, dice, model, now: start, made: 0, rich, pace, weights, done: Vec::new() };
    for _ in 0..length {
        let step = maker.step(&history.policy, zone);
        maker.model.run(&step);
        maker.done.push(step);
    }
    history.steps = maker.done;
    history
}

fn hours(dice: &mut Dice) -> i64 {
    i64::try_from(dice.below(24 * 60)).unwrap()
}

fn some_policy(dice: &mut Dice) -> Policy {
    let named = |name: &str| Policy { name: name.to_owned(), ..Policy::default() };
    let short = Policy {
        hold_default_s: 60,
        hold_lifetime_s: 120,
        trial: ExpiryRule::Days(1),
        promo: ExpiryRule::Days(2),
        paid: ExpiryRule::RollingMonths(1),
        low_balance: Some(credits(5 * ONE)),
        ..named("short")
    };
    let long = Policy {
        hold_default_s: 86_400,
        hold_lifetime_s: 86_400,
        trial: ExpiryRule::Months(1),
        promo: ExpiryRule::Never,
        paid: ExpiryRule::Never,
        ..named("long")
    };
    match dice.below(5) {
        0 => Policy::default(),
        1 => Policy { overrun: Overrun::Cap, ..named("cap") },
        2 => long,
        3 => Policy { overrun: Overrun::Cap, name: "short_cap".to_owned(), ..short },
        _ => short,
    }
}

fn some_quotas(dice: &mut Dice) -> Vec<Quota> {
    let mut quotas = Vec::new();
    if dice.chance(50) {
        return quotas;
    }
    for subject in [Subject::Member("m1".to_owned()), Subject::KeyRef("k1".to_owned())] {
        for window in [Window::Day, Window::Month, Window::Total] {
            if dice.chance(40) {
                let limit = credits(dice.pick(&[5 * ONE, 10 * ONE, 33_333_334, 100 * ONE, 1_000 * ONE]));
                quotas.push(Quota { subject: subject.clone(), window, limit });
            }
        }
    }
    quotas
}

/// Weights of the steps in `Maker::advance`.
const PACES: [[usize; 9]; 3] =
    [[60, 6, 16, 3, 1, 1, 0, 0, 13], [40, 6, 14, 9, 5, 4, 2, 1, 19], [25, 4, 8, 10, 10, 12, 6, 2, 23]];

const VERBS: usize = 19;

/// By verb, in the order of `Maker::verb`; each history leans to some of them.
fn some_weights(dice: &mut Dice) -> [usize; VERBS] {
    let mut weights = [14, 16, 16, 5, 14, 4, 5, 12, 6, 6, 3, 3, 7, 4, 3, 2, 2, 1, 3];
    for _ in 0..dice.below(4) {
        weights[dice.below(VERBS - 2)] *= 4;
    }
    // Erasure ends most of what can happen, so most histories go without.
    weights[17] = if dice.chance(12) { 2 } else { 0 };
    weights
}

struct Maker {
    seed: u64,
    dice: Dice,
    model: Model,
    now: Instant,
    made: u64,
    rich: bool,
    /// How time goes: slowly, mixed, in leaps.
    pace: usize,
    weights: [usize; VERBS],
    done: Vec<Step>,
}

impl Maker {
    fn step(&mut self, policy: &Policy, zone: Tz) -> Step {
        if self.done.is_empty() {
            let command = self.command(open(policy, zone));
            return Step { content: command.content(), command, now: self.now };
        }
        self.advance();
        let command = if self.dice.chance(7) { self.repeated() } else { self.fresh(policy, zone) };
        Step { content: command.content(), command, now: self.now }
    }

    /// Time stands, creeps, jumps, or goes to an instant at which something ends.
    fn advance(&mut self) {
        let micro = Duration::microseconds(1);
        let step = match self.dice.weighted(&PACES[self.pace]) {
            0 => Duration::zero(),
            1 => micro,
            2 => Duration::seconds(self.dice.pick(&[1, 7, 30, 60])),
            3 => Duration::seconds(self.dice.pick(&[120, 600, 599, 3_600])),
            4 => Duration::hours(self.dice.pick(&[1, 6, 12])),
            5 => Duration::days(self.dice.pick(&[1, 1, 2])),
            6 => Duration::days(self.dice.pick(&[20, 30])),
            7 => Duration::days(400),
            _ => return self.advance_to_an_end(micro),
        };
        self.now += step;
    }

    fn advance_to_an_end(&mut self, micro: Duration) {
        let holds = self
            .model
            .book
            .holds
            .iter()
            .filter(|hold| hold.status == HoldStatus::Open)
            .map(|hold| hold.expires);
        let grants = self.model.book.grants.iter().filter(|grant| grant.remaining + grant.reserved > 0);
        let mut ends: Vec<Instant> = holds.chain(grants.filter_map(|grant| grant.expires)).collect();
        ends.retain(|end| *end > self.now + micro);
        ends.sort();
        if ends.is_empty() {
            return;
        }
        let end = ends[self.dice.below(ends.len().min(3))];
        self.now = self.dice.pick(&[end, end, end - micro, end + micro]);
    }

    /// An earlier command again, sometimes with another content or origin.
    fn repeated(&mut self) -> Command {
        let at = self.dice.below(self.done.len());
        let mut command = self.done[at].command.clone();
        match self.dice.below(6) {
            0 => command.words.reason = Some("another reason".to_owned()),
            1 => command.verb = Verb::Charge { amount: credits(ONE) },
            2 => command.key = command.key.map(|(_, key)| (Origin::Form, key)),
            _ => {}
        }
        // Ids are made anew for every request; they are no part of its content.
        match &mut command.verb {
            Verb::Grant { id, .. } | Verb::Adjust { id, .. } => *id = self.grant_id(),
            Verb::Hold { id, .. } => *id = self.hold_id(),
            _ => {}
        }
        command
    }

    fn fresh(&mut self, policy: &Policy, zone: Tz) -> Command {
        let mut verb = self.verb(policy, zone);
        if self.is_idle(&verb) && self.dice.chance(85) {
            verb = self.starter();
        }
        let mut command = self.command(verb);
        match command.verb {
            Verb::Charge { .. } | Verb::Hold { .. } => command.call = self.call(),
            Verb::Mark { .. } | Verb::RefundJob if self.dice.chance(97) => {
                command.call.job_id = Some(self.a_job(command.verb == Verb::RefundJob));
            }
            Verb::Grant { .. } if self.dice.chance(15) => {
                let days = self.dice.pick(&[0, 1, 3, 40]);
                command.occurred_at = Some(self.now - Duration::days(days));
            }
            Verb::Lapse => command.key = None,
            _ => {}
        }
        command
    }

    /// Whether it names something of which there is none: kept rare, since it can only be refused.
    fn is_idle(&self, verb: &Verb) -> bool {
        let late = |hold: &Hold| hold.status == HoldStatus::Expired || hold.unknown;
        match verb {
            Verb::Renew { hold, .. } | Verb::Release { hold } | Verb::Reverse { hold, .. } => {
                self.model.hold(*hold).is_none_or(|hold| hold.status != HoldStatus::Open)
            }
            Verb::Settle { hold, .. } => {
                self.model.hold(*hold).is_none_or(|hold| hold.status != HoldStatus::Open && !late(hold))
            }
            Verb::Refund { seq, .. } => {
                self.model.event(seq.0).is_none_or(|_| self.model.left_of(seq.0).iter().sum::<Micro>() == 0)
            }
            Verb::Restore { grant, .. } => self.model.clawed(*grant) == 0,
            Verb::Void { grant } | Verb::Extend { grant, .. } => {
                self.model.grant(*grant).is_none_or(|grant| !grant.live(self.now))
            }
            Verb::Clawback { grant, .. } => self.model.grant(*grant).is_none(),
            Verb::Charge { .. } | Verb::Hold { .. } => self.model.available() <= 0,
            Verb::RefundJob => self.model.events.iter().all(|event| event.job.is_none()),
            _ => false,
        }
    }

    /// What gives the other verbs something to name.
    fn starter(&mut self) -> Verb {
        if self.model.available() <= 0 || self.dice.chance(20) {
            return self.grant();
        }
        let amount = self.spend();
        if self.dice.chance(40) {
            return Verb::Charge { amount };
        }
        Verb::Hold { id: self.hold_id(), amount, expires_in_s: self.seconds() }
    }

    fn command(&mut self, verb: Verb) -> Command {
        let number = self.number();
        Command {
            account: self.model.account,
            key: Some((Origin::Api, key_digest(&format!("{}-{number}", self.seed)))),
            actor: Actor { kind: ActorKind::ApiKey, id: "dbk_model".to_owned(), role: None },
            verb,
            call: CallFields::default(),
            occurred_at: None,
            words: Words::default(),
            source_address: None,
        }
    }

    fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn call(&mut self) -> CallFields {
        let mut some = |percent: usize, names: &[&str]| {
            let name = self.dice.pick(names).to_owned();
            self.dice.chance(percent).then_some(name)
        };
        CallFields {
            member: some(50, &["m1", "m1", "m2"]),
            job_id: some(20, &["j1", "j2", "j3"]),
            request_ref: None,
            model: some(10, &["small", "large"]),
            key_ref: some(30, &["k1", "k2"]),
        }
    }

    fn verb(&mut self, policy: &Policy, zone: Tz) -> Verb {
        let weights = self.weights;
        match self.dice.weighted(&weights) {
            0 => self.grant(),
            1 => Verb::Charge { amount: self.spend() },
            2 => Verb::Hold { id: self.hold_id(), amount: self.spend(), expires_in_s: self.seconds() },
            3 => Verb::Renew { hold: self.a_hold(), expires_in_s: self.seconds().unwrap_or(60) },
            4 => self.settle(),
            5 => Verb::Release { hold: self.a_hold() },
            6 => {
                let outcome = self.dice.pick(&[ReverseOutcome::Failed, ReverseOutcome::Unknown]);
                Verb::Reverse { hold: self.a_hold(), outcome }
            }
            7 => self.refund(),
            8 => self.clawback(),
            9 => self.restore(),
            10 => Verb::Void { grant: self.a_grant() },
            11 => self.extend(),
            12 => self.adjust(),
            13 => Verb::Mark {
                marker: self.dice.pick(&[JobMarker::Started, JobMarker::Completed, JobMarker::Failed]),
            },
            14 => Verb::RefundJob,
            15 => Verb::SetStatus { status: self.status() },
            16 if self.dice.chance(15) => open(policy, zone),
            16 => Verb::SetPolicy { policy: some_policy(&mut self.dice) },
            17 => Verb::Erase,
            _ => Verb::Lapse,
        }
    }

    fn hold_id(&mut self) -> HoldId {
        HoldId(id(self.seed, self.number()))
    }

    fn grant_id(&mut self) -> GrantId {
        GrantId(id(self.seed, self.number()))
    }

    /// Mostly one that exists, mostly a late one.
    fn a_hold(&mut self) -> HoldId {
        let open = self.dice.chance(60);
        let holds = self.model.book.holds.iter().filter(|hold| !open || hold.status == HoldStatus::Open);
        let holds: Vec<HoldId> = holds.map(|hold| hold.id).collect();
        self.one_of(&holds).unwrap_or(HoldId(id(self.seed, 0xf_fff0)))
    }

    /// For a refund often the one that was charged most often.
    fn a_job(&mut self, refund: bool) -> String {
        let jobs = ["j1", "j2", "j3"];
        let any = self.dice.pick(&jobs);
        let charged = jobs.into_iter().max_by_key(|job| self.model.taken_for(job).len());
        charged.filter(|_| refund && self.dice.chance(50)).unwrap_or(any).to_owned()
    }

    /// One whose job may have been charged anew since it expired.
    fn a_late_hold_of_a_job(&mut self) -> HoldId {
        let is_late = |hold: &&Hold| hold.status == HoldStatus::Expired && hold.late.is_none();
        let of_jobs = self.model.book.holds.iter().filter(|hold| hold.call.job_id.is_some());
        let late: Vec<HoldId> = of_jobs.filter(is_late).map(|hold| hold.id).collect();
        match self.one_of(&late) {
            Some(hold) => hold,
            None => self.a_hold(),
        }
    }

    fn a_grant(&mut self) -> GrantId {
        let grants: Vec<GrantId> = self.model.book.grants.iter().map(|grant| grant.id).collect();
        self.one_of(&grants).unwrap_or(GrantId(id(self.seed, 0xf_fff1)))
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() || self.dice.chance(2) {
            return None;
        }
        let from = if self.dice.chance(60) { all.len().saturating_sub(3) } else { 0 };
        Some(all[from + self.dice.below(all.len() - from)])
    }

    fn some_amount(&mut self) -> Micro {
        self.dice.pick(&AMOUNTS)
    }

    /// For a charge or hold: often exactly what is there, or a millionth beside it.
    fn spend(&mut self) -> Credits {
        let available = self.model.available().max(0);
        let n = match self.dice.weighted(&[60, 8, 3, 3, 5, 12, 1, 1]) {
            0 => self.some_amount(),
            1 => available,
            2 => available + 1,
            3 => (available - 1).max(0),
            4 => 0,
            5 => available / 3,
            6 => -1,
            _ => 1_000_000_000_001 * ONE,
        };
        credits(n)
    }

    /// Around a figure that sets a bound.
    fn around(&mut self, bound: Micro) -> Credits {
        let n = match self.dice.weighted(&[25, 20, 25, 4, 4, 2, 1, 1]) {
            0 => bound,
            1 => bound / 3,
            2 => self.some_amount(),
            3 => bound + 1,
            4 => bound - 1,
            5 => 0,
            6 => -ONE,
            _ => 1_000_000_000_001 * ONE,
        };
        credits(n)
    }

    fn seconds(&mut self) -> Option<u32> {
        let longest = self.model.book.policy.hold_lifetime_s;
        match self.dice.below(12) {
            0 | 1 => Some(longest),
            2 => Some(1),
            3 | 4 => Some(60),
            5 if self.dice.chance(30) => Some(longest + 1),
            5 if self.dice.chance(30) => Some(0),
            _ => None,
        }
    }

    /// A few instants that grants and holds share.
    fn end(&mut self) -> Instant {
        let grants: Vec<Instant> = self.model.book.grants.iter().filter_map(|grant| grant.expires).collect();
        let holds: Vec<Instant> = self.model.book.holds.iter().map(|hold| hold.expires).collect();
        match self.dice.below(8) {
            0 if !grants.is_empty() => self.dice.pick(&grants),
            1 if !holds.is_empty() => self.dice.pick(&holds),
            2 => self.now + Duration::seconds(60),
            3 => self.now + Duration::microseconds(1),
            4 if self.dice.chance(20) => self.now,
            5 => self.now + Duration::days(1),
            6 => self.now + Duration::days(40),
            _ => self.now + Duration::seconds(600),
        }
    }

    fn expiry(&mut self) -> Expiry {
        match self.dice.below(10) {
            _ if self.rich => Expiry::Never,
            0..=4 => Expiry::Policy,
            5 => Expiry::Never,
            _ => Expiry::At(self.end()),
        }
    }

    fn grant(&mut self) -> Verb {
        let amount = match self.dice.below(60) {
            0 => 0,
            1 => -1,
            2 => 1_000_000_000_000 * ONE + 1,
            3..=8 => self.model.book.debt.max(1),
            9 => self.model.book.debt + 1,
            _ if self.rich => 1_000_000_000_000 * ONE,
            10..=20 => self.some_amount() * 10,
            _ => self.some_amount(),
        };
        let pool = self.dice.pick(&[Pool::Trial, Pool::Promo, Pool::Paid, Pool::Paid]);
        Verb::Grant {
            id: self.grant_id(),
            amount: credits(amount),
            pool,
            expires: self.expiry(),
            source: None,
        }
    }

    fn settle(&mut self) -> Verb {
        let hold = if self.dice.chance(12) { self.a_late_hold_of_a_job() } else { self.a_hold() };
        let amount = self.model.hold(hold).map_or(0, |hold| hold.amount);
        let n = match self.dice.weighted(&[20, 20, 10, 10, 6, 6, 6, 10, 1, 1]) {
            0 => amount,
            1 => amount / 3,
            2 => self.some_amount(),
            3 => amount + self.some_amount(),
            4 => amount + 1,
            5 => (amount - 1).max(0),
            6 => 0,
            7 => amount + self.model.available().max(0) + self.dice.pick(&[0, 1, ONE]),
            8 => -1,
            _ => 1_000_000_000_000 * ONE + 1,
        };
        Verb::Settle { hold, amount: credits(n) }
    }

    fn refund(&mut self) -> Verb {
        let used =
            self.model.events.iter().filter(|event| matches!(event.kind, Kind::Consume | Kind::Settle));
        let used: Vec<i64> = used.map(|event| event.seq).collect();
        let last = self.model.events.last().map_or(0, |event| event.seq);
        let any = 1 + i64::try_from(self.dice.below(usize::try_from(last).unwrap() + 1)).unwrap();
        let seq = if self.dice.chance(6) { any } else { self.one_of(&used).unwrap_or(any) };
        let left = self.model.event(seq).map_or(0, |_| self.model.left_of(seq).iter().sum());
        let amount = if self.dice.chance(30) { None } else { Some(self.around(left)) };
        Verb::Refund { seq: Seq(seq), amount }
    }

    /// Mostly of a grant that was paid for.
    fn clawback(&mut self) -> Verb {
        let paid = self.model.book.grants.iter().filter(|grant| grant.pool == Pool::Paid);
        let paid: Vec<GrantId> = paid.map(|grant| grant.id).collect();
        let any = self.a_grant();
        let grant = if self.dice.chance(10) { any } else { self.one_of(&paid).unwrap_or(any) };
        let left = self.model.grant(grant).map_or(0, |found| found.amount - self.model.clawed(grant));
        Verb::Clawback { grant, amount: self.around(left), payment_ref: Some("payment".to_owned()) }
    }

    /// Mostly of a grant that has something to restore.
    fn restore(&mut self) -> Verb {
        let clawed =
            self.model.book.grants.iter().map(|grant| grant.id).filter(|id| self.model.clawed(*id) > 0);
        let clawed: Vec<GrantId> = clawed.collect();
        let any = self.a_grant();
        let grant = if self.dice.chance(10) { any } else { self.one_of(&clawed).unwrap_or(any) };
        let left = self.model.clawed(grant);
        Verb::Restore { grant, amount: self.around(left), payment_ref: None }
    }

    fn extend(&mut self) -> Verb {
        let grant = self.a_grant();
        let end = self.model.grant(grant).and_then(|grant| grant.expires);
        let expires_at = match (end, self.dice.below(5)) {
            (Some(end), 0 | 1) => end + Duration::days(1),
            (Some(end), 2) => end - Duration::seconds(1),
            (Some(end), 3) => end + Duration::microseconds(1),
            _ => self.end(),
        };
        Verb::Extend { grant, expires_at }
    }

    fn adjust(&mut self) -> Verb {
        let debt = self.model.book.debt;
        let id = self.grant_id();
        if debt > 0 && self.dice.chance(60) || self.dice.chance(5) {
            let amount = self.around(debt);
            return Verb::Adjust {
                id,
                amount,
                code: ReasonCode::WriteOff,
                pool: None,
                expires: Expiry::Policy,
            };
        }
        let n = match self.dice.below(10) {
            0 => 0,
            1..=4 => -self.some_amount(),
            5 => -self.model.available().max(1),
            6 => -1_000_000_000_000 * ONE - 1,
            _ => self.some_amount(),
        };
        let pool = self.dice.pick(&[None, Some(Pool::Promo), Some(Pool::Paid)]);
        Verb::Adjust { id, amount: credits(n), code: ReasonCode::Correction, pool, expires: self.expiry() }
    }

    /// Mostly back to open, so that histories go on.
    fn status(&mut self) -> AccountStatus {
        if self.model.book.status != AccountStatus::Open && self.dice.chance(80) {
            return AccountStatus::Open;
        }
        self.dice.pick(&AccountStatus::ALL)
    }
}

fn open(policy: &Policy, zone: Tz) -> Verb {
    Verb::Open {
        external_ref: "customer".to_owned(),
        name: None,
        email: None,
        policy: policy.clone(),
        time_zone: zone.name().to_owned(),
    }
}
