//! Generated histories of all commands, through the model and through a subject, compared after each step.
//!
//! `DAYBOOK_FULL=1` runs 20,000 instead of 2,000. A failure prints its seed, the shortest history that still
//! fails, and the step; `DAYBOOK_SEED=n` repeats the history of one seed alone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ledger::command::Command;
use ledger::entry::{Entry, Kind};
use ledger::hold::HoldStatus;
use ledger::ids::Seq;
use ledger::refusal::Refusal;

use crate::figures::{GrantFigures, HoldFigures};
use crate::generate::{History, Step, generate};
use crate::invariants::{Auditor, Snapshot, View};
use crate::model::{Event, Expected, Instant, Micro, Model, lines};
use crate::reach::{MUST_REACH, Reach, count, verb_name};
use crate::subjects::{Core, Tables};

/// What runs commands: the pure core, or the same behind a database with a test clock.
pub trait Subject {
    fn run(&mut self, command: &Command, now: Instant) -> Result<Ran, Refusal>;
    /// The account as its last entry left it.
    fn snapshot(&self) -> Snapshot;
    /// Available, held and debt at an instant not before the last command, lapsed in memory; `None` if it has no such view.
    fn view(&self, _at: Instant) -> Option<View> {
        None
    }
}

#[derive(Clone, Debug)]
pub enum Ran {
    Posted(Vec<Entry>),
    Replayed(Seq),
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub step: usize,
    /// The verb and what kind of disagreement it is, by which shrinking knows it again.
    pub way: String,
    pub text: String,
}

impl Failure {
    fn new(step: usize, verb: &str, text: String) -> Failure {
        let kind: String = text.chars().take_while(|c| *c != ':').filter(|c| !c.is_ascii_digit()).collect();
        Failure { step, way: format!("{verb}: {kind}"), text }
    }
}

/// Runs a history through both. Answers with the number of entries. `trace` is written where there is one.
pub fn check(
    history: &History,
    subject: &mut dyn Subject,
    reach: &mut Reach,
    mut trace: Option<&mut String>,
) -> Result<usize, Failure> {
    let mut model = history.model();
    let mut auditor = Auditor::default();
    let mut views: Vec<(Instant, View)> = Vec::new();
    for (number, step) in history.steps.iter().enumerate() {
        let expected = model.run(step);
        let got = subject.run(&step.command, step.now);
        if let Some(trace) = trace.as_deref_mut() {
            note_step(trace, number, step, &expected, &got, &model);
        }
        count(reach, &step.command.verb, &expected, &model);
        let shown = subject.snapshot();
        let compared = same_outcome(&expected, &got, &model)
            .and_then(|()| same_figures(&model, &shown))
            .and_then(|()| same_views(&mut model, subject, step.now, number % 4 == 0));
        let none = Vec::new();
        let set = if let Ok(Ran::Posted(set)) = &got { set } else { &none };
        let audited = compared.and_then(|()| auditor.take(set, &shown, step.now));
        audited.map_err(|text| Failure::new(number, verb_name(&step.command.verb), text))?;
        views.retain(|(at, _)| *at != step.now);
        views.push((step.now, model.view(step.now)));
    }
    let shown = subject.snapshot();
    for (at, view) in views {
        let replayed = auditor.as_of(at, &shown);
        if replayed != view {
            let text = format!("as of {at}: replay {replayed:?}, then {view:?}");
            return Err(Failure::new(history.steps.len(), "as of", text));
        }
    }
    for tag in &model.tags {
        *reach.entry(format!("· {tag}")).or_default() += 1;
    }
    Ok(auditor.journal.len())
}

type Same = Result<(), String>;

/// A subject's view of now, and now and then of the next instant at which something ends, just before and at it.
fn same_views(model: &mut Model, subject: &dyn Subject, now: Instant, ahead: bool) -> Same {
    let holds =
        model.book.holds.iter().filter(|hold| hold.status == HoldStatus::Open).map(|hold| hold.expires);
    let grants =
        model.book.grants.iter().filter(|grant| grant.remaining > 0).filter_map(|grant| grant.expires);
    let next = holds.chain(grants).filter(|end| ahead && *end > now).min();
    let before = next.map(|end| end - chrono::Duration::microseconds(1));
    for at in [Some(now), before, next].into_iter().flatten() {
        if let Some(view) = subject.view(at) {
            same("view", model.view(at), view)?;
        }
    }
    Ok(())
}

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

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, got: T) -> Same {
    match (expected, got) {
        (expected, got) if expected == got => Ok(()),
        (expected, got) => Err(format!("{what}: {expected:?} expected, got {got:?}")),
    }
}

fn same_entry(event: &Event, entry: &Entry, model: &Model) -> Same {
    let n = |credits: ledger::Credits| credits.micros();
    let at = |what: &str| format!("entry {} {what}", entry.kind.as_str());
    let stamp = entry.key.map(|stamp| ((stamp.origin, stamp.key), stamp.content));
    let entry_place = (entry.seq.0, entry.set_seq.0, entry.is_main);
    same(&at("place"), (event.seq, event.set, event.main), entry_place)?;
    same(&at("note"), event.note, entry.note)?;
    same(&at("amount, moved"), (event.amount(), event.moved()), (n(entry.amount), n(entry.moved)))?;
    same(&at("lines"), model.lines(event), lines::of_entry(entry))?;
    let after = (n(entry.available_after), n(entry.held_after), n(entry.debt_after));
    same(
        &at("available, held and debt after"),
        (event.available_after, event.held_after, event.debt_after),
        after,
    )?;
    same(&at("recorded_at"), event.recorded, entry.recorded_at)?;
    same(&at("effective_at"), event.effective, entry.effective_at)?;
    same(&at("reverses"), event.reverses, entry.reverses.map(|seq| seq.0))?;
    same(&at("key"), event.key, stamp)?;
    if event.kind != Kind::Note {
        same(&at("hold"), event.hold, entry.hold)?;
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
        return Err(format!(
            "answer uncollected: {} expected, got {:?}",
            event.uncollected, answer.uncollected
        ));
    }
    if entry.kind == Kind::Settle {
        let hold = model.hold(event.hold.unwrap()).unwrap();
        let late = hold.late == Some(event.seq);
        let settled = -event.amount();
        let released = if late { 0 } else { hold.released };
        let overrun = (settled - hold.amount).max(0);
        let n = |credits: Option<ledger::Credits>| credits.map_or(0, |n| n.micros());
        let got = (n(answer.settled), n(answer.released), n(answer.overrun), answer.late);
        same("answer settle", (settled, released, overrun, late), got)?;
    }
    if matches!(entry.kind, Kind::Refund | Kind::Restore) {
        let whole: Micro = event.spread.iter().sum();
        same("answer returned", whole, answer.returned.iter().map(|part| part.amount.micros()).sum())?;
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
    let (book, head) = (&model.book, &shown.head);
    same("status", book.status, shown.status)?;
    same("policy", book.policy.name.as_str(), shown.policy.as_str())?;
    let figures = [head.available, head.held, head.debt, head.written_off].map(|n| n.micros());
    same(
        "available, held, debt, written off",
        [model.available(), model.held(), book.debt, book.written_off],
        figures,
    )?;
    same(
        "number of grants and holds",
        (book.grants.len(), book.holds.len()),
        (shown.grants.len(), shown.holds.len()),
    )?;
    for ours in GrantFigures::ours(model) {
        let theirs = shown.grants.iter().find(|other| other.id == ours.id).map(GrantFigures::shown);
        same("grant", Some(ours), theirs)?;
    }
    for hold in &book.holds {
        let theirs = shown.holds.iter().find(|other| other.id == hold.id).map(HoldFigures::shown);
        same("hold", Some(HoldFigures::ours(hold)), theirs)?;
    }
    Ok(())
}

fn note_step(
    trace: &mut String,
    number: usize,
    step: &Step,
    expected: &Expected,
    got: &Result<Ran, Refusal>,
    model: &Model,
) {
    let command = &step.command;
    let _ = writeln!(
        trace,
        "{number:3} {} {:?} {:?} at {:?}",
        step.now, command.verb, command.call, command.occurred_at
    );
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
                format!(
                    "{} {} {} {} {mark}",
                    line.direction.as_str(),
                    line.ledger_account.as_str(),
                    line.amount,
                    grant
                )
            };
            let lines: Vec<String> = entry.lines.iter().map(line).collect();
            writeln!(
                trace,
                "      got   {:3} {kind} {amount} moved {moved}: {}",
                entry.seq,
                lines.join(" | ")
            )
        }),
        other => writeln!(trace, "      got   {other:?}"),
    };
}

/// Even seeds on one state that is applied to, odd ones on states loaded for each round.
fn subject(history: &History) -> Box<dyn Subject> {
    if history.seed.is_multiple_of(2) { Box::new(Core::new(history)) } else { Box::new(Tables::new(history)) }
}

/// Runs one history, a panic being a failure too.
fn attempt(history: &History, reach: &mut Reach) -> Result<usize, Failure> {
    let run = AssertUnwindSafe(|| check(history, subject(history).as_mut(), reach, None));
    catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".to_owned());
        Err(Failure::new(0, "panic", text))
    })
}

/// Drops commands while the history still fails in the same way.
fn shrink(history: &History, failure: Failure) -> (History, Failure) {
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
                Err(failure) if failure.way == why.way => (best, why) = (fewer, failure),
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
    let mut trace = String::new();
    let traced =
        AssertUnwindSafe(|| check(&short, subject(&short).as_mut(), &mut Reach::new(), Some(&mut trace)));
    let _ = catch_unwind(traced);
    format!(
        "seed {seed}, step {}: {}\npolicy {:?} quotas {:?} zone {}\n{trace}",
        why.step, why.text, short.policy, short.quotas, short.zone
    )
}

/// What a run of many seeds found: entries written, what was reached, and the first failure of each way.
#[derive(Default)]
struct Found {
    entries: usize,
    reach: Reach,
    failures: BTreeMap<String, (u64, Failure)>,
}

impl Found {
    fn seeds(seeds: impl Iterator<Item = u64>) -> Found {
        let mut found = Found::default();
        for seed in seeds {
            match attempt(&generate(seed), &mut found.reach) {
                Ok(written) => found.entries += written,
                Err(failure) => {
                    found.failures.entry(failure.way.clone()).or_insert((seed, failure));
                }
            }
            if found.failures.len() >= FAILURES_MAX {
                break;
            }
        }
        found
    }

    fn add(&mut self, other: Found) {
        self.entries += other.entries;
        self.failures.extend(other.failures);
        for (name, times) in other.reach {
            *self.reach.entry(name).or_default() += times;
        }
    }

    fn must_agree(&self) {
        let failures = self.failures.values().take(FAILURES_MAX);
        let reports: Vec<String> = failures.map(|(seed, failure)| report(*seed, failure.clone())).collect();
        assert!(reports.is_empty(), "{}", reports.join("\n"));
    }
}

const THREADS: u64 = 4;
const FAILURES_MAX: usize = 30;

fn run_all(histories: u64) -> Found {
    std::thread::scope(|scope| {
        let seeds = |thread| (thread..histories).step_by(usize::try_from(THREADS).unwrap());
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || Found::seeds(seeds(thread)))).collect();
        let mut found = Found::default();
        threads.into_iter().for_each(|thread| found.add(thread.join().unwrap()));
        found
    })
}

#[test]
fn generated_histories_agree_with_the_model_and_keep_every_invariant() {
    if let Some(seed) = std::env::var("DAYBOOK_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let found = Found::seeds(std::iter::once(seed));
        found.must_agree();
        println!("seed {seed}: {} entries", found.entries);
        return;
    }
    let histories = if std::env::var_os("DAYBOOK_FULL").is_some() { 20_000 } else { 2_000 };
    let found = run_all(histories);
    println!("{histories} histories, {} entries", found.entries);
    for (name, times) in &found.reach {
        println!("{times:>8} {name}");
    }
    found.must_agree();
    let missing: Vec<&&str> = MUST_REACH.iter().filter(|name| !found.reach.contains_key(**name)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}
