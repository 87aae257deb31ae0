//! Generated histories: whatever is asked in whatever order, the bench's invariants hold after every set, and a
//! decision made on a view of the present agrees with one made after the sweep.

use chrono::Duration;

use super::{Bench, credits};
use crate::account::AccountStatus;
use crate::command::{CallFields, Expiry, JobMarker, ReasonCode, ReverseOutcome, Verb};
use crate::credits::Credits;
use crate::decide::{Ruling, decide};
use crate::entry::{Kind, LedgerAccount};
use crate::grant::Pool;
use crate::hold::HoldStatus;
use crate::ids::{GrantId, HoldId, Seq};
use crate::policy::{Overrun, Policy};
use crate::quota::{Quota, Subject, Window};
use crate::refusal::Refusal;

/// A small generator of its own, so that a seed names a history for good (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % sides
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let sides = u64::try_from(of.len()).unwrap();
        (sides > 0).then(|| of[usize::try_from(self.roll(sides)).unwrap()])
    }

    /// Mostly small and crooked, sometimes 0.
    fn amount(&mut self) -> Credits {
        match self.roll(6) {
            0 => Credits::ZERO,
            1 => Credits::from_micros(i128::from(self.roll(9) + 1)).unwrap(),
            2 => Credits::whole(u32::try_from(self.roll(60)).unwrap()),
            _ => Credits::from_micros(i128::from(self.roll(40_000_000))).unwrap(),
        }
    }
}

fn verb(dice: &mut Dice, bench: &mut Bench) -> Verb {
    let grants: Vec<GrantId> = bench.state.grants.keys().copied().collect();
    let holds: Vec<HoldId> = bench.state.holds.keys().copied().collect();
    let unknown = GrantId(uuid::Uuid::from_u128(3));
    let grant = dice.pick(&grants).unwrap_or(unknown);
    let hold = dice.pick(&holds).unwrap_or(HoldId(unknown.0));
    let amount = dice.amount();
    let expires = match dice.roll(4) {
        0 => Expiry::Never,
        1 => Expiry::Policy,
        _ => Expiry::At(bench.now + Duration::seconds(i64::try_from(dice.roll(4_000)).unwrap())),
    };
    let pool = Pool::ALL[usize::try_from(dice.roll(3)).unwrap()];
    let id = GrantId(uuid::Uuid::from_u128(bench.new_id()));
    let seq = Seq(i64::try_from(dice.roll(u64::try_from(bench.journal.len()).unwrap() + 2)).unwrap());
    match dice.roll(40) {
        0..=5 => Verb::Grant { id, amount, pool, expires, source: None },
        6..=11 => Verb::Charge { amount },
        12..=17 => Verb::Hold {
            id: HoldId(id.0),
            amount,
            expires_in_s: Some(u32::try_from(dice.roll(1_200)).unwrap()),
        },
        18..=21 => Verb::Settle { hold, amount },
        22 => Verb::Release { hold },
        23 => Verb::Reverse {
            hold,
            outcome: if dice.roll(2) == 0 { ReverseOutcome::Failed } else { ReverseOutcome::Unknown },
        },
        24 => Verb::Renew { hold, expires_in_s: 900 },
        25..=28 => Verb::Refund { seq, amount: (dice.roll(2) == 0).then_some(amount) },
        29 | 30 => Verb::Clawback { grant, amount, payment_ref: None },
        31 | 32 => Verb::Restore { grant, amount, payment_ref: None },
        33 => Verb::Void { grant },
        34 => Verb::Extend { grant, expires_at: bench.now + Duration::hours(2) },
        35 => Verb::Adjust { id, amount, code: ReasonCode::Goodwill, pool: Some(pool), expires },
        36 => {
            Verb::Adjust { id, amount: amount.negated(), code: ReasonCode::Correction, pool: None, expires }
        }
        37 => Verb::Adjust {
            id,
            amount: amount.min(bench.state.head.debt),
            code: ReasonCode::WriteOff,
            pool: None,
            expires,
        },
        38 if dice.roll(20) == 0 => Verb::Erase,
        38 => Verb::SetStatus {
            status: if dice.roll(4) == 0 { AccountStatus::ReadOnly } else { AccountStatus::Open },
        },
        _ => {
            if dice.roll(2) == 0 {
                Verb::RefundJob
            } else {
                Verb::Mark { marker: JobMarker::Started }
            }
        }
    }
}

fn history(seed: u64) -> usize {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let overrun = if dice.roll(4) == 0 { Overrun::Cap } else { Overrun::Full };
    let mut bench = Bench::under(Policy { overrun, ..Policy::default() });
    bench.state.quotas.push(Quota { subject: member(), window: Window::Total, limit: credits("1000000000") });
    let mut accepted = Vec::new();
    for _ in 0..60 {
        if dice.roll(3) == 0 {
            bench.now += Duration::seconds(i64::try_from(dice.roll(900)).unwrap());
        }
        bench.call.job_id = (dice.roll(4) == 0).then(|| format!("j{}", dice.roll(3)));
        bench.call.member = (dice.roll(2) == 0).then(|| "m".to_owned());
        let verb = verb(&mut dice, &mut bench);
        let command = bench.command(verb);
        let mut swept = bench.clone();
        let loaded = decide(&bench.loaded(&command), &command, bench.now.max(bench.state.head.recorded_at));
        let outcome = bench.send(&command);
        let alike = loaded == outcome;
        assert!(alike, "seed {seed}, {:?}: decided otherwise on what the store loads", command.verb);
        swept.sweep();
        let after_sweep = swept.send(&command);
        let said =
            || format!("seed {seed}, {:?}: {outcome:?} but after a sweep {after_sweep:?}", command.verb);
        assert_eq!(outcome.is_ok(), after_sweep.is_ok(), "{}", said());
        assert_eq!(bench.figures(), swept.figures(), "{}", said());
        if let Ok(Ruling::Post(decision)) = outcome {
            accepted.push((command, decision.set.main().unwrap().seq));
        }
    }
    for (command, seq) in accepted {
        assert_eq!(bench.send(&command), Ok(Ruling::Replay(seq)), "seed {seed}");
    }
    check_use(&bench, seed);
    bench.journal.len()
}

fn member() -> Subject {
    Subject::Member("m".to_owned())
}

/// Used is charges and settles and open holds less refunds, of what the member asked for.
fn check_use(bench: &Bench, seed: u64) {
    let ours = |call: &CallFields| call.member.is_some();
    let mut sum = 0;
    for entry in bench.journal.iter().filter(|entry| ours(&entry.call)) {
        let posted = |account| {
            entry
                .lines
                .iter()
                .filter(move |line| line.ledger_account == account)
                .map(|line| line.amount.micros())
        };
        match entry.kind {
            Kind::Consume | Kind::Settle => sum += posted(LedgerAccount::Revenue).sum::<i128>(),
            Kind::Refund => sum -= posted(LedgerAccount::RefundExpense).sum::<i128>(),
            _ => {}
        }
    }
    let open = bench.state.holds.values().filter(|hold| hold.status == HoldStatus::Open && ours(&hold.call));
    sum += open.map(|hold| hold.amount.micros()).sum::<i128>();
    let used = bench.state.uses.get(&(member(), Window::Total, chrono::DateTime::UNIX_EPOCH));
    assert_eq!(used.map_or(0, |used| used.micros()), sum, "seed {seed}");
}

/// How many histories: `LEDGER_HISTORIES`, or few enough for every run.
fn histories() -> u64 {
    std::env::var("LEDGER_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

#[test]
fn generated_histories_keep_the_invariants() {
    let count = histories();
    let entries: usize = (1..=count).map(history).sum();
    println!("{count} histories, {entries} entries");
    assert!(
        entries > usize::try_from(count).unwrap() * 20,
        "{entries} entries: most of what is generated must be accepted"
    );
}

#[test]
fn a_usage_entry_is_always_refundable_in_full() {
    // Rule 9 finds a place for every part, whatever happened to debt, grants and payers in between.
    for seed in 1..=histories() {
        let mut dice = Dice(seed);
        let mut bench = Bench::new();
        for _ in 0..30 {
            let verb = verb(&mut dice, &mut bench);
            let command = bench.command(verb);
            let _ = bench.send(&command);
        }
        let open: Vec<Seq> = bench.state.originals.keys().copied().collect();
        for seq in open {
            match bench.attempt(Verb::Refund { seq, amount: None }) {
                Ok(_) => {}
                Err(refusal) => assert_eq!(
                    refusal,
                    Refusal::RefundExceedsCharge { refundable: credits("0") },
                    "seed {seed}"
                ),
            }
        }
    }
}
