//! One account on a bench.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::account::Head;
use crate::command::{
    Actor, CallFields, Command, Expiry, Origin, ReasonCode, ReverseOutcome, Verb, key_digest,
};
use crate::credits::Credits;
use crate::decide::{Decision, LapsedView, Ruling, Signal, State, decide};
use crate::entry::{DebtMark, Direction, Entry, Kind, LedgerAccount, Words};
use crate::grant::{Grant, Pool};
use crate::hold::{Hold, HoldStatus};
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::policy::Policy;
use crate::refusal::Refusal;

pub fn credits(text: &str) -> Credits {
    Credits::parse(text).unwrap()
}

pub fn at(text: &str) -> DateTime<Utc> {
    let full = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    full.parse().unwrap()
}

/// Lines as text: side, ledger account, amount, grant (`g1` is the first made), debt mark, balance after.
pub fn lines_of(entry: &Entry) -> Vec<String> {
    entry.lines.iter().map(line_text).collect()
}

fn line_text(line: &crate::entry::Line) -> String {
    let mut text = format!("{} {} {}", line.direction.as_str(), line.ledger_account.as_str(), line.amount);
    if let Some(grant) = line.grant {
        text.push_str(&format!(" g{}", grant.0.as_u128() >> 64));
    }
    if line.debt != DebtMark::None {
        text.push_str(&format!(" {}", line.debt.as_str()));
    }
    if let Some(after) = line.balance_after {
        text.push_str(&format!(" ={after}"));
    }
    text
}

#[derive(Clone, Debug)]
pub struct Bench {
    pub state: State,
    pub now: DateTime<Utc>,
    pub call: CallFields,
    pub occurred_at: Option<DateTime<Utc>>,
    pub journal: Vec<Entry>,
    pub signals: Vec<Signal>,
    made: u128,
    keys: u32,
}

impl Bench {
    /// An open account under the default policy, opened on 2026-01-01.
    pub fn new() -> Bench {
        Bench::under(Policy::default())
    }

    pub fn under(policy: Policy) -> Bench {
        let mut bench = Bench::empty();
        bench.post(Verb::Open {
            external_ref: "c-1".into(),
            name: None,
            email: None,
            policy,
            time_zone: "UTC".into(),
        });
        bench
    }

    /// An account that has no entry yet.
    pub fn empty() -> Bench {
        let state = State::empty(AccountId(Uuid::from_u128(1)), Policy::default(), chrono_tz::UTC);
        Bench {
            state,
            now: at("2026-01-01"),
            call: CallFields::default(),
            occurred_at: None,
            journal: Vec::new(),
            signals: Vec::new(),
            made: 0,
            keys: 0,
        }
    }

    pub fn at(&mut self, instant: &str) -> &mut Bench {
        self.now = at(instant);
        self
    }

    pub fn command(&mut self, verb: Verb) -> Command {
        self.keys += 1;
        let key = format!("key-{}", self.keys);
        self.keyed(&key, verb)
    }

    pub fn keyed(&self, key: &str, verb: Verb) -> Command {
        Command {
            account: self.state.account,
            key: Some((Origin::Api, key_digest(key))),
            actor: Actor::api_key("k1"),
            verb,
            call: self.call.clone(),
            occurred_at: self.occurred_at,
            words: Words::default(),
            source_address: None,
        }
    }

    pub fn decide(&self, command: &Command) -> Result<Ruling, Refusal> {
        decide(&self.state, command, self.now.max(self.state.head.recorded_at))
    }

    /// Decides and, where accepted, applies and checks.
    pub fn send(&mut self, command: &Command) -> Result<Ruling, Refusal> {
        let ruling = self.decide(command)?;
        if let Ruling::Post(decision) = &ruling {
            self.check_set(decision);
            self.state.apply(decision);
            self.journal.extend(decision.set.entries.iter().cloned());
            self.signals.extend(decision.signals.iter().cloned());
            self.check();
        }
        Ok(ruling)
    }

    pub fn attempt(&mut self, verb: Verb) -> Result<Vec<Entry>, Refusal> {
        let command = self.command(verb);
        match self.send(&command)? {
            Ruling::Post(decision) => Ok(decision.set.entries),
            other => panic!("{other:?}"),
        }
    }

    pub fn post(&mut self, verb: Verb) -> Vec<Entry> {
        self.attempt(verb).unwrap()
    }

    pub fn refused(&mut self, verb: Verb) -> Refusal {
        let before = self.state.head.clone();
        let refusal = self.attempt(verb).unwrap_err();
        assert_eq!(self.state.head, before);
        refusal
    }

    /// The main entry that the command is answered with again.
    pub fn replayed(&mut self, verb: Verb) -> Seq {
        let command = self.command(verb);
        match self.send(&command) {
            Ok(Ruling::Replay(seq)) => seq,
            other => panic!("{other:?}"),
        }
    }

    /// The sweep: what it wrote.
    pub fn sweep(&mut self) -> Vec<Entry> {
        let mut command = self.command(Verb::Lapse);
        command.key = None;
        command.actor = Actor::worker("sweep");
        match self.send(&command).unwrap() {
            Ruling::Post(decision) => decision.set.entries,
            Ruling::Nothing => Vec::new(),
            Ruling::Replay(seq) => panic!("replay of {seq}"),
        }
    }

    pub fn view(&self) -> LapsedView {
        self.state.lapsed_view(self.now.max(self.state.head.recorded_at)).unwrap()
    }

    /// `available held debt` as every view shows them now.
    pub fn figures(&self) -> String {
        let view = self.view();
        format!("{} {} {}", view.available, view.held, view.debt)
    }

    pub fn new_id(&mut self) -> u128 {
        self.made += 1;
        self.made << 64
    }

    pub fn grant_verb(&mut self, amount: &str, pool: Pool, expires: Expiry) -> Verb {
        let id = GrantId(Uuid::from_u128(self.new_id()));
        Verb::Grant { id, amount: credits(amount), pool, expires, source: None }
    }

    pub fn grant(&mut self, amount: &str, pool: Pool, expires: Expiry) -> GrantId {
        let verb = self.grant_verb(amount, pool, expires);
        let Verb::Grant { id, .. } = verb else { panic!() };
        self.post(verb);
        id
    }

    /// A paid grant that never ends.
    pub fn paid(&mut self, amount: &str) -> GrantId {
        self.grant(amount, Pool::Paid, Expiry::Never)
    }

    /// A promo grant with an end.
    pub fn promo(&mut self, amount: &str, ends: &str) -> GrantId {
        self.grant(amount, Pool::Promo, Expiry::At(at(ends)))
    }

    /// The number of the CONSUME entry.
    pub fn charge(&mut self, amount: &str) -> Seq {
        main(&self.post(Verb::Charge { amount: credits(amount) })).seq
    }

    pub fn hold_verb(&mut self, amount: &str, expires_in_s: Option<u32>) -> (HoldId, Verb) {
        let id = HoldId(Uuid::from_u128(self.new_id()));
        (id, Verb::Hold { id, amount: credits(amount), expires_in_s })
    }

    pub fn hold(&mut self, amount: &str) -> HoldId {
        let (id, verb) = self.hold_verb(amount, None);
        self.post(verb);
        id
    }

    pub fn settle(&mut self, hold: HoldId, amount: &str) -> Vec<Entry> {
        self.post(Verb::Settle { hold, amount: credits(amount) })
    }

    pub fn reverse(&mut self, hold: HoldId, outcome: ReverseOutcome) -> Vec<Entry> {
        self.post(Verb::Reverse { hold, outcome })
    }

    pub fn refund(&mut self, seq: Seq, amount: &str) -> Vec<Entry> {
        self.post(Verb::Refund { seq, amount: Some(credits(amount)) })
    }

    pub fn clawback(&mut self, grant: GrantId, amount: &str) -> Vec<Entry> {
        self.post(Verb::Clawback { grant, amount: credits(amount), payment_ref: None })
    }

    pub fn restore(&mut self, grant: GrantId, amount: &str) -> Vec<Entry> {
        self.post(Verb::Restore { grant, amount: credits(amount), payment_ref: None })
    }

    pub fn adjust_verb(&mut self, amount: &str, code: ReasonCode) -> Verb {
        let id = GrantId(Uuid::from_u128(self.new_id()));
        Verb::Adjust { id, amount: credits(amount), code, pool: None, expires: Expiry::Policy }
    }

    pub fn adjust(&mut self, amount: &str, code: ReasonCode) -> Vec<Entry> {
        let verb = self.adjust_verb(amount, code);
        self.post(verb)
    }

    pub fn grant_state(&self, id: GrantId) -> &Grant {
        &self.state.grants[&id]
    }

    pub fn remaining(&self, id: GrantId) -> String {
        self.state.grants[&id].remaining.to_string()
    }

    pub fn hold_state(&self, id: HoldId) -> &Hold {
        &self.state.holds[&id]
    }

    // What holds after every set, whatever the command.

    fn check_set(&self, decision: &Decision) {
        let entries = &decision.set.entries;
        let mut head = self.state.head.clone();
        assert!(entries.iter().filter(|entry| entry.is_main).count() <= 1);
        for entry in entries {
            assert_eq!(entry.seq, head.seq.next());
            assert_eq!(entry.set_seq, self.state.head.seq.next());
            assert!(entry.effective_at >= head.effective_at, "effective_at fell");
            assert!(entry.recorded_at >= head.recorded_at && entry.effective_at <= entry.recorded_at);
            assert_eq!(entry.key.is_some(), entry.is_main, "the main entry has the key");
            check_lines(entry, &mut head);
            let kind = entry.kind.index();
            head.totals.amount[kind] = head.totals.amount[kind].plus(entry.amount).unwrap();
            head.totals.moved[kind] = head.totals.moved[kind].plus(entry.moved).unwrap();
            assert_eq!(
                (entry.amount_total, entry.moved_total),
                (head.totals.amount[kind], head.totals.moved[kind])
            );
            head.seq = entry.seq;
            head.recorded_at = entry.recorded_at;
            head.effective_at = entry.effective_at;
        }
        head.written_off = decision.head.written_off;
        assert_eq!(head, decision.head);
    }

    fn check(&self) {
        let head = &self.state.head;
        let sum = |amounts: Vec<Credits>| Credits::sum(amounts).unwrap();
        let remaining = sum(self.state.grants.values().map(|grant| grant.remaining).collect());
        let reserved = sum(self.state.grants.values().map(|grant| grant.reserved).collect());
        assert_eq!(
            head.available,
            remaining.minus(head.debt).unwrap(),
            "available is what grants have left minus debt"
        );
        assert_eq!(head.held, reserved, "held is what grants have reserved");
        let open = self.state.holds.values().filter(|hold| hold.status == HoldStatus::Open);
        assert_eq!(head.held, sum(open.map(|hold| hold.amount).collect()), "held is the sum of open holds");
        assert!(head.debt.is_zero() || remaining.is_zero(), "debt and a remainder stand together");
        assert!(!head.debt.is_negative() && !head.written_off.is_negative() && !head.held.is_negative());
        for grant in self.state.grants.values() {
            self.check_grant(grant);
        }
        for hold in self.state.holds.values() {
            check_hold(hold);
        }
        for original in self.state.originals.values().chain(self.state.clawbacks.values().flatten()) {
            for (line, given) in original.entry.debit_lines().zip(&original.given_back) {
                assert!(!given.is_negative() && *given <= line.amount, "more given back than there was");
            }
        }
    }

    /// The grant's tallies against what the journal's lines say of it.
    fn check_grant(&self, grant: &Grant) {
        let mut sum = Tally::default();
        for entry in &self.journal {
            for line in entry.lines.iter().filter(|line| line.grant == Some(grant.id)) {
                sum.add(entry, line);
            }
        }
        assert_eq!(sum.remaining, grant.remaining.micros(), "remaining of {}", grant.id);
        assert_eq!(sum.reserved, grant.reserved.micros(), "reserved of {}", grant.id);
        assert_eq!(sum.paid_to_debt, grant.paid_to_debt.micros(), "paid to debt of {}", grant.id);
        assert_eq!(sum.lapsed, grant.lapsed.micros(), "lapsed of {}", grant.id);
        assert_eq!(sum.lapse_taken, grant.lapse_taken.micros(), "lapse taken of {}", grant.id);
        assert!(grant.remaining.micros() >= 0 && grant.remaining <= grant.amount);
        assert!(grant.reserved.micros() >= 0);
        assert!(grant.given_back_for_debt <= grant.paid_to_debt);
        assert!(
            grant.restored <= grant.clawed_back
                && grant.clawed_back.minus(grant.restored).unwrap() <= grant.amount
        );
        assert!(grant.lapse_taken.micros() >= 0 && grant.lapse_taken <= grant.lapsed);
    }
}

#[derive(Default)]
struct Tally {
    remaining: i128,
    reserved: i128,
    paid_to_debt: i128,
    lapsed: i128,
    lapse_taken: i128,
}

impl Tally {
    fn add(&mut self, entry: &Entry, line: &crate::entry::Line) {
        let signed =
            if line.direction == Direction::Credit { line.amount.micros() } else { -line.amount.micros() };
        match (line.ledger_account, line.debt) {
            (LedgerAccount::Available, DebtMark::Pays) => self.paid_to_debt += signed,
            (LedgerAccount::Available, _) => self.remaining += signed,
            (LedgerAccount::Held, _) => self.reserved += signed,
            (LedgerAccount::ExpirationGain, _) if matches!(entry.kind, Kind::Expire | Kind::Void) => {
                self.lapsed += signed;
            }
            (LedgerAccount::ExpirationGain, _) => self.lapse_taken -= signed,
            _ => {}
        }
    }
}

/// Debits are credits; each customer line says what it left; the head follows.
fn check_lines(entry: &Entry, head: &mut Head) {
    let before = head.available.plus(head.held).unwrap();
    let held_before = head.held;
    let mut sides = 0;
    for line in &entry.lines {
        assert!(line.amount.is_positive(), "{}", line_text(line));
        let signed = if line.direction == Direction::Credit { line.amount } else { line.amount.negated() };
        sides += signed.micros();
        match line.ledger_account {
            LedgerAccount::Available => head.available = head.available.plus(signed).unwrap(),
            LedgerAccount::Held => head.held = head.held.plus(signed).unwrap(),
            _ => assert_eq!(line.balance_after, None),
        }
        match line.debt {
            DebtMark::None => {}
            DebtMark::Makes | DebtMark::Pays => head.debt = head.debt.minus(signed).unwrap(),
        }
        match line.ledger_account {
            LedgerAccount::Available => assert_eq!(line.balance_after, Some(head.available)),
            LedgerAccount::Held => assert_eq!(line.balance_after, Some(head.held)),
            _ => {}
        }
    }
    assert_eq!(sides, 0, "debits equal credits: {:?}", lines_of(entry));
    assert_eq!(entry.amount, head.available.plus(head.held).unwrap().minus(before).unwrap());
    if matches!(entry.kind, Kind::AuthHold | Kind::AuthRelease | Kind::AuthReversal) {
        assert_eq!(entry.moved, head.held.minus(held_before).unwrap());
        assert!(entry.amount.is_zero());
    } else {
        assert!(entry.moved.is_zero());
    }
    assert_eq!(
        (entry.available_after, entry.held_after, entry.debt_after),
        (head.available, head.held, head.debt)
    );
}

fn check_hold(hold: &Hold) {
    let parts = Credits::sum(hold.parts.iter().map(|part| part.amount)).unwrap();
    assert_eq!(parts, hold.amount);
    let ended = Credits::sum([hold.settled, hold.released, hold.reversed]).unwrap();
    if hold.status == HoldStatus::Open {
        assert!(ended.is_zero() && hold.ended_by.is_none());
    } else {
        assert_eq!(ended, hold.amount);
        assert!(hold.ended_by.is_some());
    }
}

pub fn main(entries: &[Entry]) -> &Entry {
    entries.iter().find(|entry| entry.is_main).unwrap()
}
