//! Clients at work, each a thread with a connection it keeps and a journal of its own.
//!
//! They share accounts: every second operation goes to the first one. A client names only its own holds and charges,
//! whose acknowledgement it has, as a service would.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Answer, Client};
use crate::dice::Dice;
use crate::journal::Record;
use crate::operation::{AccountRef, Act, Micros, Operation, PlacedHold, Span, text};

/// An operation that is not decided for so long never will be.
const PATIENCE: Duration = Duration::from_secs(120);
/// More open holds than this are ended before new ones are placed.
const HOLDS_MAX: usize = 20;
const BATCH_MAX: u64 = 16;

/// How far the clients are, and whether they are to end before all is done.
#[derive(Default)]
pub struct Course {
    /// Operations that are decided or left.
    pub progress: AtomicU64,
    pub is_over: AtomicBool,
}

/// What the clients do.
pub struct Workload {
    pub clients: u32,
    /// In all.
    pub operations: u64,
    pub accounts: u64,
    /// Where the servers are.
    pub servers: Vec<String>,
    /// In a hundred operations: sent to two servers at once.
    pub twins_percent: u64,
    /// In a hundred unknown outcomes: left until the end. The others are asked again at once.
    pub left_percent: u64,
    pub bearer: String,
}

impl Workload {
    pub fn account(&self, number: u64) -> AccountRef {
        AccountRef(format!("crash-{number}"))
    }

    /// Opens the accounts and gives each something to spend, to some not much.
    pub fn set_up(&self) -> Vec<Record> {
        let mut worker = Worker::new(self, "setup".to_owned(), Dice::new(0));
        // A credit for each operation lasts: the mean charge is 2.5, and every third operation is one.
        let plenty = Micros::from(self.operations.clamp(3_000, 1_000_000)) * 1_000_000;
        for number in 0..self.accounts {
            let account = self.account(number);
            worker.run_one(account.clone(), Act::Open, None);
            let amount = if number % 4 == 3 { 40_000_000 } else { plenty };
            worker.run_one(account, Act::Grant { amount, pool: "paid" }, None);
        }
        worker.journal
    }

    /// All clients at once; what they wrote down.
    pub fn run(&self, dice: &mut Dice, course: &Course) -> Vec<Record> {
        let each = self.operations.div_ceil(u64::from(self.clients));
        scope(|threads| {
            let clients: Vec<_> = (0..self.clients)
                .map(|number| {
                    let dice = dice.split();
                    threads.spawn(move || {
                        let mut worker = Worker::new(self, format!("c{number}"), dice);
                        worker.work(each, course);
                        worker.journal
                    })
                })
                .collect();
            let ended = clients.into_iter().flat_map(|client| client.join().expect("a client ends well"));
            ended.collect()
        })
    }

    /// Asks about everything that was left, with its own key, until it is decided.
    pub fn decide(&self, records: &mut [Record], dice: &mut Dice) {
        let mut worker = Worker::new(self, "last".to_owned(), dice.split());
        for record in records.iter_mut().filter(|record| record.is_pending()) {
            worker.settle(record, 0);
        }
    }
}

/// A charge or settle of which something may be given back.
struct Paid {
    account: AccountRef,
    seq: i64,
    amount: Micros,
    left: Micros,
}

struct Worker<'a> {
    workload: &'a Workload,
    name: String,
    dice: Dice,
    client: Client,
    twin: Client,
    journal: Vec<Record>,
    holds: Vec<PlacedHold>,
    ended: Vec<PlacedHold>,
    paid: Vec<Paid>,
}

impl<'a> Worker<'a> {
    fn new(workload: &'a Workload, name: String, dice: Dice) -> Worker<'a> {
        let client = || Client::new(&workload.bearer);
        Worker {
            workload,
            name,
            dice,
            client: client(),
            twin: client(),
            journal: Vec::new(),
            holds: Vec::new(),
            ended: Vec::new(),
            paid: Vec::new(),
        }
    }

    fn work(&mut self, operations: u64, course: &Course) {
        let mut done = 0;
        while done < operations && !course.is_over.load(Ordering::Relaxed) {
            match self.dice.below(100) {
                0..=4 => self.ask_again(),
                5..=6 => self.reuse_key(),
                _ => {}
            }
            let many = if self.dice.percent(4) {
                self.run_batch()
            } else {
                let operation = self.draw();
                self.run(operation);
                1
            };
            done += many;
            course.progress.fetch_add(many, Ordering::Relaxed);
        }
    }

    // ---- what to do next

    fn operation(&self, account: AccountRef, act: Act, must_be_refused: Option<&'static str>) -> Operation {
        Operation { key: format!("{}-{}", self.name, self.journal.len()), account, act, must_be_refused }
    }

    fn account(&mut self) -> AccountRef {
        let number = if self.dice.percent(50) { 0 } else { self.dice.below(self.workload.accounts) };
        self.workload.account(number)
    }

    /// Up to 5 credits, now and then nothing.
    fn amount(&mut self) -> Micros {
        if self.dice.percent(2) { 0 } else { Micros::from(1 + self.dice.below(5_000_000)) }
    }

    fn draw(&mut self) -> Operation {
        let account = self.account();
        match self.dice.below(100) {
            0..=33 => {
                let act = Act::Charge { amount: self.amount() };
                self.operation(account, act, None)
            }
            34..=56 if self.holds.len() < HOLDS_MAX => self.draw_hold(account),
            34..=79 => self.draw_end(account),
            80..=87 => self.draw_refund(account),
            88..=91 => {
                let pool = ["trial", "promo", "paid"][self.dice.place(3)];
                let act = Act::Grant { amount: 1 + self.amount(), pool };
                self.operation(account, act, None)
            }
            92..=93 => {
                let account = AccountRef(format!("{}-opened-{}", self.name, self.journal.len()));
                self.operation(account, Act::Open, None)
            }
            _ => self.draw_refused(account),
        }
    }

    fn draw_hold(&mut self, account: AccountRef) -> Operation {
        let span = if self.dice.percent(10) { Span::Short } else { Span::Long };
        let act = Act::Hold { amount: self.amount(), span };
        self.operation(account, act, None)
    }

    fn draw_end(&mut self, account: AccountRef) -> Operation {
        if self.holds.is_empty() {
            return self.draw_hold(account);
        }
        let hold = self.holds.swap_remove(self.dice.place(self.holds.len()));
        let account = hold.account.clone();
        let act = match self.dice.below(10) {
            0..=5 => Act::Settle { amount: self.settle_amount(hold.amount), hold },
            6..=7 => Act::Release { hold },
            8 => Act::Reverse { hold, outcome: "failed" },
            _ => Act::Reverse { hold, outcome: "unknown" },
        };
        self.operation(account, act, None)
    }

    /// Below the hold, all of it, or above.
    fn settle_amount(&mut self, held: Micros) -> Micros {
        held * Micros::from(self.dice.below(14)) / 10
    }

    fn draw_refund(&mut self, account: AccountRef) -> Operation {
        if self.paid.is_empty() {
            let act = Act::Charge { amount: self.amount() };
            return self.operation(account, act, None);
        }
        let paid = self.paid.swap_remove(self.dice.place(self.paid.len()));
        let amount = if self.dice.percent(50) { paid.left } else { (paid.left / 2).max(1) };
        let operation = self.operation(paid.account.clone(), Act::Refund { seq: paid.seq, amount }, None);
        if paid.left > amount {
            self.paid.push(Paid { left: paid.left - amount, ..paid });
        }
        operation
    }

    fn draw_refused(&mut self, account: AccountRef) -> Operation {
        match self.dice.below(3) {
            0 if !self.ended.is_empty() => {
                let hold = self.ended[self.dice.place(self.ended.len())].clone();
                let account = hold.account.clone();
                self.operation(account, Act::Release { hold }, Some("hold_ended"))
            }
            1 if !self.paid.is_empty() => {
                let paid = &self.paid[self.dice.place(self.paid.len())];
                let act = Act::Refund { seq: paid.seq, amount: paid.amount + 1 };
                self.operation(paid.account.clone(), act, Some("refund_exceeds_charge"))
            }
            _ => self.operation(
                account,
                Act::Charge { amount: 900_000_000_000_000_000 },
                Some("insufficient_credits"),
            ),
        }
    }

    // ---- how it is done

    fn run_one(&mut self, account: AccountRef, act: Act, must_be_refused: Option<&'static str>) {
        let operation = self.operation(account, act, must_be_refused);
        self.run(operation);
    }

    /// Writes it down, sends it, and works with what comes of it.
    fn run(&mut self, operation: Operation) {
        let mut record = Record::new(operation);
        let left_percent = self.workload.left_percent;
        if self.dice.percent(self.workload.twins_percent) {
            self.send_twice(&mut record);
        }
        if record.is_pending() {
            self.settle(&mut record, left_percent);
        }
        self.absorb(&record);
        self.journal.push(record);
    }

    fn server(&mut self) -> &'a str {
        &self.workload.servers[self.dice.place(self.workload.servers.len())]
    }

    /// The same request to both servers at the same time.
    fn send_twice(&mut self, record: &mut Record) {
        let [first, second, ..] = self.workload.servers.as_slice() else { return };
        let began = Instant::now();
        let operation = &record.operation;
        let (client, twin) = (&self.client, &self.twin);
        let answers = scope(|threads| {
            let other = threads.spawn(|| twin.send(second, operation));
            let own = client.send(first, operation);
            [own, other.join().expect("a request ends well")]
        });
        record.note_both(answers, began);
    }

    /// Sends it until it is decided, or until an unknown outcome is left for later.
    fn settle(&mut self, record: &mut Record, left_percent: u64) {
        let begun = Instant::now();
        while record.is_pending() {
            let server = self.server();
            let began = Instant::now();
            let answer = self.client.send(server, &record.operation);
            let pause = match &answer {
                Answer::Accepted { .. } | Answer::Refused { .. } => Duration::ZERO,
                Answer::Unsent | Answer::Cut(_) => self.dice.wait_ms(5, 40),
                Answer::NotNow { .. } | Answer::Unclear(_) => self.dice.wait_ms(50, 200),
            };
            let is_unknown = matches!(answer, Answer::Cut(_) | Answer::Unclear(_));
            record.note(answer, began);
            assert!(
                begun.elapsed() < PATIENCE,
                "{} is not decided: {:?}",
                record.operation.key,
                record.unclear
            );
            sleep(pause);
            if is_unknown && self.dice.percent(left_percent) {
                return;
            }
        }
    }

    /// Several operations in one request; what is not decided by it is sent by itself, or left.
    fn run_batch(&mut self) -> u64 {
        let many = 2 + self.dice.below(BATCH_MAX - 1);
        let first = self.journal.len();
        for _ in 0..many {
            let mut operation = self.draw();
            while matches!(operation.act, Act::Open) {
                operation = self.draw();
            }
            self.journal.push(Record::new(operation));
        }
        let mut records = self.journal.split_off(first);
        let began = Instant::now();
        let operations: Vec<&Operation> = records.iter().map(|record| &record.operation).collect();
        let server = self.server();
        let answers = self.client.send_batch(server, &operations);
        for (record, answer) in records.iter_mut().zip(answers) {
            record.note(answer, began);
        }
        let is_left = self.dice.percent(self.workload.left_percent);
        for record in &mut records {
            if record.is_pending() && !is_left {
                self.settle(record, self.workload.left_percent);
            }
            self.absorb(record);
        }
        self.journal.append(&mut records);
        many
    }

    /// A request that was acknowledged, once more: the same answer, as a replay.
    fn ask_again(&mut self) {
        let Some(place) = self.some_accepted() else { return };
        let server = self.server();
        let began = Instant::now();
        let answer = self.client.send(server, &self.journal[place].operation);
        self.journal[place].note_again(answer, began);
    }

    /// The key of an acknowledged request with another content.
    fn reuse_key(&mut self) {
        let Some(place) = self.some_accepted() else { return };
        let server = self.server();
        let record = &mut self.journal[place];
        let Act::Charge { amount } = record.operation.act else { return };
        let body = json!({"amount": text(amount + 1), "request_ref": record.operation.key});
        let fault = match self.client.send_body(server, &record.operation, &body) {
            Answer::Accepted { body, .. } => Some(format!("other content was accepted: {body}")),
            Answer::Refused { name } if name != "idempotency_key_reused" => {
                Some(format!("other content was refused as {name}"))
            }
            _ => None,
        };
        record.faults.extend(fault);
    }

    fn some_accepted(&mut self) -> Option<usize> {
        if self.journal.is_empty() {
            return None;
        }
        let place = self.dice.place(self.journal.len());
        self.journal[place].accepted().map(|_| place)
    }

    /// What an acknowledgement makes possible.
    fn absorb(&mut self, record: &Record) {
        let Some(accepted) = record.accepted() else { return };
        let account = record.operation.account.clone();
        match &record.operation.act {
            Act::Hold { amount, span } => {
                let id = accepted.hold.clone().expect("a hold's answer names it");
                self.holds.push(PlacedHold { account, id, amount: *amount, span: *span });
            }
            Act::Charge { amount } => self.note_paid(account, accepted.seq, *amount),
            Act::Settle { hold, amount } => {
                self.note_paid(account, accepted.seq, *amount);
                self.ended.push(hold.clone());
            }
            Act::Release { hold } => self.ended.push(hold.clone()),
            Act::Open | Act::Grant { .. } | Act::Reverse { .. } | Act::Refund { .. } => {}
        }
    }

    fn note_paid(&mut self, account: AccountRef, seq: i64, amount: Micros) {
        if amount > 0 {
            self.paid.push(Paid { account, seq, amount, left: amount });
        }
    }
}
