//! Generated histories of all commands, through the model and through a subject, compared after each step.
//!
//! `DAYBOOK_FULL=1` runs 20,000 instead of 2,000. A failure prints its seed, the shortest history that still
//! fails, and the step; `DAYBOOK_SEED=n` repeats the history of one seed alone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ledger::command::{Command, Verb};
use ledger::decide::{Ruling, State, decide};
use ledger::entry::{Entry, Kind};
use ledger::account::{AccountStatus, Head};
use ledger::grant::Grant;
use ledger::hold::Hold;
use ledger::ids::Seq;
use ledger::refusal::Refusal;

use crate::generate::{History, Step, generate};
use crate::invariants::{Auditor, Snapshot};
use crate::model::{self, Event, Expected, Fact, Instant, Micro, Model, lines};

/// What runs commands: the pure core, or the same behind a database with a test clock.
pub trait Subject {
    fn run(&mut self, command: &Command, now: Instant) -> Result<Ran, Refusal>;
    /// The account as its last entry left it.
    fn snapshot(&self) -> Snapshot;
}

#[derive(Clone, Debug)]
pub enum Ran {
    Posted(Vec<Entry>),
    Replayed(Seq),
    Nothing,
}

/// The pure core on a state that it alone keeps.
pub struct Core {
    state: State,
}

impl Core {
    pub fn new(history: &History) -> Core {
        let state = State {
            account: history.account,
            status: AccountStatus::Open,
            policy: history.policy.clone(),
            time_zone: history.zone,
            erased: false,
            head: Head::empty(),
            grants: BTreeMap::new(),
            holds: BTreeMap::new(),
            originals: BTreeMap::new(),
            clawbacks: BTreeMap::new(),
            debt_payments: Vec::new(),
            jobs: BTreeMap::new(),
            quotas: history.quotas.clone(),
            uses: BTreeMap::new(),
            keys: BTreeMap::new(),
            voids: BTreeMap::new(),
        };
        Core { state }
    }
}

impl Subject for Core {
    fn run(&mut self, command: &Command, now: Instant) -> Result<Ran, Refusal> {
        match decide(&self.state, command, now)? {
            Ruling::Post(decision) => {
                self.state.apply(&decision);
                Ok(Ran::Posted(decision.set.entries))
            }
            Ruling::Replay(seq) => Ok(Ran::Replayed(seq)),
            Ruling::Nothing => Ok(Ran::Nothing),
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            status: self.state.status,
            policy: self.state.policy.name.clone(),
            head: self.state.head.clone(),
            grants: self.state.grants.values().cloned().collect(),
            holds: self.state.holds.values().cloned().collect(),
        }
    }
}

/// How often each verb came to each outcome, and each corner was reached.
pub type Reach = BTreeMap<String, u64>;

#[derive(Clone, Debug)]
pub struct Failure {
    pub step: usize,
    pub text: String,
    pub trace: String,
}

/// Runs a history through both. Answers with the number of entries.
pub fn check(history: &History, subject: &mut dyn Subject, reach: &mut Reach) -> Result<usize, Failure> {
    let mut model = history.model();
    let mut auditor = Auditor::default();
    let mut trace = String::new();
    let mut views: Vec<(Instant, Micro, Micro)> = Vec::new();
    for (number, step) in history.steps.iter().enumerate() {
        let expected = model.run(&step.command, step.now);
        let got = subject.run(&step.command, step.now);
        note_step(&mut trace, number, step, &expected, &got, &model);
        count(reach, &step.command.verb, &expected, &model);
        let shown = subject.snapshot();
        let compared = same_outcome(&expected, &got, &model).and_then(|()| same_figures(&model, &shown));
        let none = Vec::new();
        let set = if let Ok(Ran::Posted(set)) = &got { set } else { &none };
        let audited = compared.and_then(|()| auditor.take(set, &shown, step.now));
        audited.map_err(|text| Failure { step: number, text, trace: trace.clone() })?;
        let view = model.view(step.now);
        views.retain(|(at, ..)| *at != step.now);
        views.push((step.now, view.0, view.1));
    }
    let shown = subject.snapshot();
    for (at, available, held) in views {
        let replayed = auditor.as_of(at, &shown);
        if replayed != (available, held) {
            let text = format!("as of {at}: replay {replayed:?}, then {:?}", (available, held));
            return Err(Failure { step: history.steps.len(), text, trace });
        }
    }
    for tag in &model.tags {
        *reach.entry(format!("· {tag}")).or_default() += 1;
    }
    Ok(auditor.journal.len())
}

type Same = Result<(), String>;

fn same_outcome(expected: &Expected, got: &Result<Ran, Refusal>, model: &Model) -> Same {
    match (expected, got) {
        (Expected::Posted(from), Ok(Ran::Posted(set))) => same_set(&model.events[*from..], set, model),
        (Expected::Replay(seq), Ok(Ran::Replayed(got))) if seq == got => Ok(()),
        (Expected::Nothing, Ok(Ran::Nothing)) => Ok(()),
        (Expected::Refused(expected), Err(got)) if same_refusal(expected, got) => Ok(()),
        _ => Err(format!("outcome: the model expects {expected:?}")),
    }
}

/// Which field is named, and in which words, is not the design's matter.
fn same_refusal(expected: &Refusal, got: &Refusal) -> bool {
    matches!((expected, got), (Refusal::Invalid { .. }, Refusal::Invalid { .. })) || expected == got
}

fn same_set(expected: &[Event], set: &[Entry], model: &Model) -> Same {
    let kinds = |kinds: Vec<Kind>| kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(" ");
    let one = kinds(expected.iter().map(|event| event.kind).collect());
    let other = kinds(set.iter().map(|entry| entry.kind).collect());
    if one != other {
        return Err(format!("entries: {one} expected, got {other}"));
    }
    expected.iter().zip(set).try_for_each(|(event, entry)| same_entry(event, entry, model))
}

fn same_entry(event: &Event, entry: &Entry, model: &Model) -> Same {
    let at = |what: &str, expected: String, got: String| {
        let kind = entry.kind.as_str();
        if expected == got { Ok(()) } else { Err(format!("entry {kind} {what}: {expected} expected, got {got}")) }
    };
    let place = |seq: i64, set: i64, main: bool| format!("{seq} of set {set}, main {main}");
    at("place", place(event.seq, event.set, event.main), place(entry.seq.0, entry.set_seq.0, entry.is_main))?;
    at("note", format!("{:?}", event.note), format!("{:?}", entry.note))?;
    at("amount", event.amount().to_string(), entry.amount.micros().to_string())?;
    at("moved", event.moved().to_string(), entry.moved.micros().to_string())?;
    at("lines", format!("{:?}", model.lines(event)), format!("{:?}", lines::of_entry(entry)))?;
    at("available_after", event.available_after.to_string(), entry.available_after.micros().to_string())?;
    at("held_after", event.held_after.to_string(), entry.held_after.micros().to_string())?;
    at("debt_after", event.debt_after.to_string(), entry.debt_after.micros().to_string())?;
    at("recorded_at", event.recorded.to_string(), entry.recorded_at.to_string())?;
    at("effective_at", event.effective.to_string(), entry.effective_at.to_string())?;
    at("reverses", format!("{:?}", event.reverses.map(Seq)), format!("{:?}", entry.reverses))?;
    at("key", format!("{:?}", event.key), format!("{:?}", entry.key.map(|stamp| ((stamp.origin, stamp.key), stamp.content))))?;
    if event.kind != Kind::Note {
        at("hold", format!("{:?}", event.hold), format!("{:?}", entry.hold))?;
    }
    same_answer(event, entry, model)
}

/// What the main entry stores for its answer.
fn same_answer(event: &Event, entry: &Entry, model: &Model) -> Same {
    let answer = &entry.answer;
    let spread: Vec<Micro> = answer.spread.iter().map(|part| part.micros()).collect();
    if spread != event.spread {
        return Err(format!("answer spread: {:?} expected, got {spread:?}", event.spread));
    }
    if answer.uncollected.map_or(0, |n| n.micros()) != event.uncollected {
        return Err(format!("answer uncollected: {} expected, got {:?}", event.uncollected, answer.uncollected));
    }
    if entry.kind == Kind::Settle {
        let hold = model.hold(event.hold.unwrap()).unwrap();
        let late = hold.late == Some(event.seq);
        let settled = -event.amount();
        let released = if late { 0 } else { hold.released };
        let got = (answer.settled.map(|n| n.micros()), answer.released.map_or(0, |n| n.micros()), answer.late);
        if got != (Some(settled), released, late) {
            return Err(format!("answer settle: {settled}, {released}, late {late} expected, got {got:?}"));
        }
    }
    // The model stands after the whole set, which is where the last refund of it left the original.
    if let (Kind::Refund, Some(of)) = (entry.kind, event.reverses) {
        let left: Micro = model.left_of(of).iter().sum();
        if answer.refundable.map(|n| n.micros()) != Some(left) {
            return Err(format!("answer refundable: {left} expected, got {:?}", answer.refundable));
        }
    }
    Ok(())
}

fn same_figures(model: &Model, shown: &Snapshot) -> Same {
    let book = &model.book;
    let ours = (book.status, book.policy.name.clone(), model.available(), model.held(), book.debt, book.written_off);
    let head = &shown.head;
    let figures = [head.available, head.held, head.debt, head.written_off].map(|n| n.micros());
    let theirs = (shown.status, shown.policy.clone(), figures[0], figures[1], figures[2], figures[3]);
    if ours != theirs {
        return Err(format!("account: {ours:?} expected, got {theirs:?}"));
    }
    if book.grants.len() != shown.grants.len() || book.holds.len() != shown.holds.len() {
        return Err("grants and holds: not as many".to_owned());
    }
    for grant in &book.grants {
        let ours = grant_figures(model, grant);
        let theirs = shown.grants.iter().find(|other| other.id == grant.id).map(shown_grant).unwrap_or_default();
        if ours != theirs {
            return Err(format!("grant {}: {ours} expected, got {theirs}", grant.id));
        }
    }
    for hold in &book.holds {
        let ours = hold_figures(hold);
        let theirs = shown.holds.iter().find(|other| other.id == hold.id).map(shown_hold).unwrap_or_default();
        if ours != theirs {
            return Err(format!("hold {}: {ours} expected, got {theirs}", hold.id));
        }
    }
    Ok(())
}

fn grant_figures(model: &Model, grant: &model::Grant) -> String {
    let sums = |of: fn(&Fact) -> Option<(ledger::ids::GrantId, Micro)>| -> Micro {
        model.total(|fact| of(fact).filter(|(id, _)| *id == grant.id).map_or(0, |(_, n)| n))
    };
    let lapsed = sums(|fact| if let Fact::Lapsed(id, n) = fact { Some((*id, *n)) } else { None });
    let taken = sums(|fact| match fact {
        Fact::LapseTaken(id, n) => Some((*id, *n)),
        Fact::LapseReturned(id, n) => Some((*id, -*n)),
        _ => None,
    });
    let clawed = sums(|fact| if let Fact::Clawed(id, n) = fact { Some((*id, *n)) } else { None });
    let restored = sums(|fact| if let Fact::Restored(id, n) = fact { Some((*id, *n)) } else { None });
    let paid = sums(|fact| if let Fact::DebtPaid(Some(id), n) = fact { Some((*id, *n)) } else { None });
    let back = sums(|fact| if let Fact::GivenBackForDebt(id, n) = fact { Some((*id, *n)) } else { None });
    format!(
        "seq {} {:?} amount {} remaining {} reserved {} expires {:?} rolling {} voided {:?} lapsed {lapsed} taken {taken} clawed {clawed} restored {restored} paid {paid} back {back}",
        grant.seq, grant.pool, grant.amount, grant.remaining, grant.reserved, grant.expires, grant.rolling, grant.voided,
    )
}

fn shown_grant(grant: &Grant) -> String {
    let n = |credits: ledger::Credits| credits.micros();
    format!(
        "seq {} {:?} amount {} remaining {} reserved {} expires {:?} rolling {} voided {:?} lapsed {} taken {} clawed {} restored {} paid {} back {}",
        grant.seq, grant.pool, n(grant.amount), n(grant.remaining), n(grant.reserved), grant.expires_at, grant.rolling,
        grant.voided_at, n(grant.lapsed), n(grant.lapse_taken), n(grant.clawed_back), n(grant.restored),
        n(grant.paid_to_debt), n(grant.given_back_for_debt),
    )
}

fn hold_figures(hold: &model::Hold) -> String {
    format!(
        "seq {} amount {} {:?} expires {} settled {} released {} reversed {} unknown {} ended by {:?} late {:?} parts {:?}",
        hold.seq, hold.amount, hold.status, hold.expires, hold.settled, hold.released, hold.reversed, hold.unknown,
        hold.ended_by, hold.late, hold.parts,
    )
}

fn shown_hold(hold: &Hold) -> String {
    let n = |credits: ledger::Credits| credits.micros();
    let parts: Vec<_> = hold.parts.iter().map(|part| (part.grant, n(part.amount))).collect();
    format!(
        "seq {} amount {} {:?} expires {} settled {} released {} reversed {} unknown {} ended by {:?} late {:?} parts {parts:?}",
        hold.seq, n(hold.amount), hold.status, hold.expires_at, n(hold.settled), n(hold.released), n(hold.reversed),
        hold.needs_review, hold.ended_by.map(|seq| seq.0), hold.late_settle.map(|seq| seq.0),
    )
}

fn verb_name(verb: &Verb) -> String {
    let text = format!("{verb:?}");
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}

fn count(reach: &mut Reach, verb: &Verb, expected: &Expected, model: &Model) {
    let outcome = match expected {
        Expected::Posted(_) => "posted".to_owned(),
        Expected::Replay(_) => "replayed".to_owned(),
        Expected::Nothing => "nothing".to_owned(),
        Expected::Refused(refusal) => {
            let text = format!("{refusal:?}");
            text.split([' ', '{']).next().unwrap_or_default().to_owned()
        }
    };
    *reach.entry(format!("{} {outcome}", verb_name(verb))).or_default() += 1;
    if let Expected::Posted(from) = expected {
        for event in &model.events[*from..] {
            *reach.entry(format!("= {}", event.kind.as_str())).or_default() += 1;
        }
    }
}

fn note_step(trace: &mut String, number: usize, step: &Step, expected: &Expected, got: &Result<Ran, Refusal>, model: &Model) {
    let command = &step.command;
    let _ = writeln!(trace, "{number:3} {} {:?} {:?} at {:?}", step.now, command.verb, command.call, command.occurred_at);
    let _ = match expected {
        Expected::Posted(from) => model.events[*from..].iter().try_for_each(|event| {
            let (kind, amount, moved) = (event.kind.as_str(), event.amount(), event.moved());
            writeln!(trace, "      model {:3} {kind} {amount} moved {moved}: {:?}", event.seq, event.facts)
        }),
        other => writeln!(trace, "      model {other:?}"),
    };
    let _ = match got {
        Ok(Ran::Posted(set)) => set.iter().try_for_each(|entry| {
            let (kind, amount, moved) = (entry.kind.as_str(), entry.amount, entry.moved);
            let line = |line: &ledger::entry::Line| {
                let grant = line.grant.map(|id| id.to_string()).unwrap_or_default();
                let mark = line.debt.as_str();
                format!("{} {} {} {} {mark}", line.direction.as_str(), line.ledger_account.as_str(), line.amount, grant)
            };
            let lines: Vec<String> = entry.lines.iter().map(line).collect();
            writeln!(trace, "      got   {:3} {kind} {amount} moved {moved}: {}", entry.seq, lines.join(" | "))
        }),
        other => writeln!(trace, "      got   {other:?}"),
    };
}

/// Runs one history, a panic being a failure too.
fn attempt(history: &History, reach: &mut Reach) -> Result<usize, Failure> {
    let run = AssertUnwindSafe(|| check(history, &mut Core::new(history), reach));
    catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".to_owned());
        Err(Failure { step: 0, text: format!("panic: {text}"), trace: String::new() })
    })
}

/// Drops commands while the history still fails in the same way.
fn shrink(history: &History, failure: Failure) -> (History, Failure) {
    let way = |failure: &Failure| failure.text.split(':').next().unwrap_or_default().to_owned();
    let (mut best, mut why) = (history.clone(), failure);
    if why.step > 0 {
        best.steps.truncate(why.step + 1);
    }
    let mut chunk = best.steps.len() / 2;
    while chunk > 0 {
        let mut at = 1;
        while at < best.steps.len() {
            let mut fewer = best.clone();
            fewer.steps.drain(at..(at + chunk).min(best.steps.len()));
            match attempt(&fewer, &mut Reach::new()) {
                Err(failure) if way(&failure) == way(&why) => (best, why) = (fewer, failure),
                _ => at += chunk,
            }
        }
        chunk /= 2;
    }
    (best, why)
}

fn report(seed: u64, failure: Failure) -> String {
    let history = generate(seed);
    let (short, why) = shrink(&history, failure);
    format!(
        "seed {seed}, step {}: {}\npolicy {:?} quotas {:?} zone {}\n{}",
        why.step, why.text, short.policy, short.quotas, short.zone, why.trace
    )
}

/// The seeds of one thread. Stops at its first failure.
fn run_seeds(seeds: impl Iterator<Item = u64>) -> Result<(usize, Reach), String> {
    let (mut entries, mut reach) = (0, Reach::new());
    for seed in seeds {
        match attempt(&generate(seed), &mut reach) {
            Ok(written) => entries += written,
            Err(failure) => return Err(report(seed, failure)),
        }
    }
    Ok((entries, reach))
}

const THREADS: u64 = 4;

fn run_all(histories: u64) -> (usize, Reach) {
    let results: Vec<_> = std::thread::scope(|scope| {
        let run = |thread| move || run_seeds((thread..histories).step_by(usize::try_from(THREADS).unwrap()));
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (mut entries, mut reach) = (0, Reach::new());
    for result in results {
        let (written, reached) = result.unwrap_or_else(|failure| panic!("{failure}"));
        entries += written;
        for (name, times) in reached {
            *reach.entry(name).or_default() += times;
        }
    }
    (entries, reach)
}

#[test]
fn generated_histories_agree_with_the_model_and_keep_every_invariant() {
    if let Some(seed) = std::env::var("DAYBOOK_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let entries = run_seeds(std::iter::once(seed)).unwrap_or_else(|failure| panic!("{failure}")).0;
        println!("seed {seed}: {entries} entries");
        return;
    }
    let histories = if std::env::var_os("DAYBOOK_FULL").is_some() { 20_000 } else { 2_000 };
    let (entries, reach) = run_all(histories);
    println!("{histories} histories, {entries} entries");
    for (name, times) in &reach {
        println!("{times:>8} {name}");
    }
    let missing: Vec<&&str> = MUST_REACH.iter().filter(|name| !reach.contains_key(**name)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

/// Every accepted path, every refusal a verb can get, and the corners.
const MUST_REACH: &[&str] = &["Open posted"];
