//! What must hold after every step, checked from the journal's entries and lines alone.
//!
//! The auditor knows neither the model nor the decisions: it adds up lines as they come and compares the sums
//! with the figures the subject shows. Numbers in comments are those of the design's list of invariants.

use std::collections::{BTreeMap, BTreeSet};

use ledger::Credits;
use ledger::account::{AccountStatus, Head};
use ledger::command::KeyName;
use ledger::entry::{DebtMark, Direction, Entry, Kind, LedgerAccount, Line, NoteKind};
use ledger::grant::{Grant, GrantView};
use ledger::hold::{Hold, HoldStatus, HoldView};
use ledger::ids::{GrantId, HoldId};

use crate::model::{Instant, Micro};

/// What a subject shows of an account after a step.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub status: AccountStatus,
    pub policy: String,
    pub head: Head,
    /// All of them, ended ones too.
    pub grants: Vec<Grant>,
    pub holds: Vec<Hold>,
}

pub type Check = Result<(), String>;

/// What can be seen of an account at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    pub available: Micro,
    pub held: Micro,
    pub debt: Micro,
}

macro_rules! ensure {
    ($truth:expr, $($text:tt)+) => {
        if !$truth {
            return Err(format!($($text)+));
        }
    };
}

/// Sums over the lines that name a grant.
#[derive(Clone, Debug, Default)]
struct GrantSums {
    made: Micro,
    remaining: Micro,
    reserved: Micro,
    drawn: Micro,
    refunded: Micro,
    lapsed: Micro,
    paid_to_debt: Micro,
}

#[derive(Clone, Debug, Default)]
struct HoldSums {
    reserved: Micro,
    settled: Micro,
    released: Micro,
    reversed: Micro,
    /// The set in which it ended.
    ended_in: Option<i64>,
    late_settles: usize,
}

/// Adds up a journal as it grows.
#[derive(Clone, Debug, Default)]
pub struct Auditor {
    pub journal: Vec<Entry>,
    available: Micro,
    held: Micro,
    debt: Micro,
    grants: BTreeMap<GrantId, GrantSums>,
    holds: BTreeMap<HoldId, HoldSums>,
    amounts: [Micro; Kind::COUNT],
    moved: [Micro; Kind::COUNT],
    /// By entry: what each of its debit lines got back.
    given_back: BTreeMap<i64, Vec<Micro>>,
    keys: BTreeSet<KeyName>,
    /// Grants as they stood before the set that is being taken in.
    before: Vec<Grant>,
}

impl Auditor {
    /// Takes in the entries of one command and compares with what the subject shows after it.
    pub fn take(&mut self, set: &[Entry], shown: &Snapshot, now: Instant) -> Check {
        let first = set.first().map(|entry| entry.seq);
        for entry in set {
            let at = |text: String| format!("invariant, entry {} {}: {text}", entry.seq, entry.kind.as_str());
            ensure!(Some(entry.set_seq) == first, "{}", at("is of another set".to_owned()));
            self.order(entry).map_err(at)?;
            self.balanced(entry).map_err(at)?;
            self.spend_order(entry, shown).map_err(at)?;
            for line in &entry.lines {
                self.line(entry, line).map_err(at)?;
            }
            self.hold(entry).map_err(at)?;
            self.back(entry).map_err(at)?;
            self.after(entry).map_err(at)?;
            self.journal.push(entry.clone());
        }
        ensure!(set.iter().filter(|entry| entry.is_main).count() <= 1, "invariant: two main entries");
        self.compare(shown, now).map_err(|text| format!("invariant: {text}"))?;
        answered(set, shown, now)?;
        self.before.clone_from(&shown.grants);
        Ok(())
    }

    /// 4 and 8: no gap, neither time ever falls, and a key is there once.
    fn order(&mut self, entry: &Entry) -> Check {
        let last = self.journal.last();
        ensure!(entry.seq.0 == last.map_or(1, |last| last.seq.0 + 1), "a gap before it");
        ensure!(entry.effective_at <= entry.recorded_at, "takes effect after it was recorded");
        if let Some(stamp) = entry.key {
            ensure!(entry.is_main, "a key beside the main entry");
            ensure!(self.keys.insert((stamp.origin, stamp.key)), "its key is in the journal already");
        }
        if let Some(last) = last {
            ensure!(last.recorded_at <= entry.recorded_at, "recorded before its predecessor");
            ensure!(last.effective_at <= entry.effective_at, "takes effect before its predecessor");
        }
        let lapse = matches!(entry.kind, Kind::Expire | Kind::AuthReversal) || closes_out(entry);
        ensure!(lapse || entry.effective_at == entry.recorded_at, "only a lapse takes effect earlier");
        Ok(())
    }

    /// 1: debits equal credits, and it has the lines its kind asks for.
    fn balanced(&self, entry: &Entry) -> Check {
        let sum = |direction: Direction| -> Micro {
            let lines = entry.lines.iter().filter(|line| line.direction == direction);
            lines.map(|line| line.amount.micros()).sum()
        };
        ensure!(sum(Direction::Debit) == sum(Direction::Credit), "does not balance: {:?}", entry.lines);
        ensure!(entry.lines.iter().all(|line| line.amount.is_positive()), "a line not above 0");
        let nothing = entry.amount.is_zero() && entry.moved.is_zero();
        ensure!(!entry.lines.is_empty() || nothing, "an amount without lines");
        ensure!(entry.kind != Kind::Note || entry.lines.is_empty(), "a note with lines");
        ensure!(entry.note.is_some() == (entry.kind == Kind::Note), "a note kind on another entry, or none");
        for line in &entry.lines {
            let asked = allowed(entry.kind, line.direction).contains(&line.ledger_account);
            ensure!(asked, "a line of {} its kind does not ask for", line.ledger_account.as_str());
            let of_available = line.ledger_account == LedgerAccount::Available;
            ensure!(of_available || line.debt == DebtMark::None, "debt marked outside available");
        }
        if entry.kind == Kind::AuthHold {
            ensure!(entry.lines.len().is_multiple_of(2), "its lines are pairs");
        }
        Ok(())
    }

    /// Adds one line up; the balance after it must follow.
    fn line(&mut self, entry: &Entry, line: &Line) -> Check {
        let n = line.amount.micros();
        let signed = if line.direction == Direction::Credit { n } else { -n };
        let after = match line.ledger_account {
            LedgerAccount::Available => {
                self.available += signed;
                Some(self.available)
            }
            LedgerAccount::Held => {
                self.held += signed;
                Some(self.held)
            }
            _ => None,
        };
        ensure!(
            line.balance_after.map(Credits::micros) == after,
            "balance after a line: {line:?}, not {after:?}"
        );
        if after.is_none() {
            return Ok(());
        }
        match line.debt {
            DebtMark::Makes => self.debt += n,
            DebtMark::Pays => self.debt -= n,
            DebtMark::None => {
                ensure!(line.grant.is_some(), "a customer line names neither grant nor debt: {line:?}");
            }
        }
        if let Some(id) = line.grant {
            self.grant_line(entry, line, id, signed);
        }
        Ok(())
    }

    fn grant_line(&mut self, entry: &Entry, line: &Line, id: GrantId, signed: Micro) {
        let sums = self.grants.entry(id).or_default();
        let n = signed.abs();
        if matches!(entry.kind, Kind::Topup | Kind::Adjust) && signed > 0 {
            sums.made += n;
        }
        match (line.ledger_account, line.debt) {
            (_, DebtMark::Pays) => sums.paid_to_debt += n,
            (LedgerAccount::Held, _) => sums.reserved += signed,
            _ => sums.remaining += signed,
        }
        match entry.kind {
            Kind::Consume | Kind::Settle => sums.drawn += n,
            Kind::Refund => sums.refunded += n,
            Kind::Expire | Kind::Void => sums.lapsed += n,
            _ => {}
        }
    }

    /// 5: a hold ends once; after that only its one late settle.
    fn hold(&mut self, entry: &Entry) -> Check {
        let Some(id) = entry.hold else { return Ok(()) };
        let held = |direction| -> Micro {
            let lines = entry
                .lines
                .iter()
                .filter(|line| line.ledger_account == LedgerAccount::Held && line.direction == direction);
            lines.map(|line| line.amount.micros()).sum()
        };
        let (put, taken) = (held(Direction::Credit), held(Direction::Debit));
        let sums = self.holds.entry(id).or_default();
        let ended_before = sums.ended_in.is_some_and(|set| set != entry.set_seq.0);
        ensure!(!ended_before || taken == 0, "an ended hold changes");
        match entry.kind {
            Kind::AuthHold => sums.reserved += put,
            Kind::Settle => {
                sums.settled += taken;
                // A hold of 0 that is settled has no held line either, so its end tells, not its lines.
                sums.late_settles += usize::from(sums.ended_in.is_some());
                sums.ended_in.get_or_insert(entry.set_seq.0);
            }
            Kind::AuthRelease => {
                sums.released += taken;
                sums.ended_in.get_or_insert(entry.set_seq.0);
            }
            Kind::AuthReversal => {
                sums.reversed += taken;
                sums.ended_in.get_or_insert(entry.set_seq.0);
            }
            _ => {}
        }
        ensure!(sums.late_settles <= 1, "a second late settle");
        Ok(())
    }

    /// 7: what was given back of each part never exceeds it.
    fn back(&mut self, entry: &Entry) -> Check {
        if !matches!(entry.kind, Kind::Refund | Kind::Restore) {
            ensure!(entry.answer.spread.is_empty(), "a spread on another kind");
            return Ok(());
        }
        let Some(of) = entry.reverses else { return Err("names no original".to_owned()) };
        let Some(original) = self.journal.iter().find(|other| other.seq == of) else {
            return Err(format!("its original {of} is not there"));
        };
        let parts: Vec<Micro> = original.debit_lines().map(|line| line.amount.micros()).collect();
        ensure!(entry.answer.spread.len() == parts.len(), "{:?} spreads over {parts:?}", entry.answer.spread);
        let given = self.given_back.entry(of.0).or_insert_with(|| vec![0; parts.len()]);
        for ((given, part), now) in given.iter_mut().zip(&parts).zip(&entry.answer.spread) {
            *given += now.micros();
            ensure!(*given <= *part && now.micros() >= 0, "more came back of {of} than a part was");
        }
        let spread: Micro = entry.answer.spread.iter().map(|part| part.micros()).sum();
        let whole: Micro = entry.debit_lines().map(|line| line.amount.micros()).sum();
        ensure!(spread == whole, "spreads {spread} of {whole}");
        Ok(())
    }

    /// 2 and 4: the figures after it follow from its lines, as do the running totals of its kind.
    fn after(&mut self, entry: &Entry) -> Check {
        let (available, held) = (entry.available_after.micros(), entry.held_after.micros());
        ensure!(
            (available, held) == (self.available, self.held),
            "after: {available} {held}, lines: {} {}",
            self.available,
            self.held
        );
        ensure!(
            entry.debt_after.micros() == self.debt && self.debt >= 0,
            "debt {}, lines {}",
            entry.debt_after,
            self.debt
        );
        let last = self
            .journal
            .last()
            .map_or((0, 0), |last| (last.available_after.micros(), last.held_after.micros()));
        let change = available + held - last.0 - last.1;
        ensure!(entry.amount.micros() == change, "amount {}, change of balance {change}", entry.amount);
        let auth = matches!(entry.kind, Kind::AuthHold | Kind::AuthRelease | Kind::AuthReversal);
        let moved = if auth { held - last.1 } else { 0 };
        ensure!(entry.moved.micros() == moved, "moved {}, not {moved}", entry.moved);
        let kind = entry.kind.index();
        self.amounts[kind] += entry.amount.micros();
        self.moved[kind] += moved;
        let totals = (entry.amount_total.micros(), entry.moved_total.micros());
        ensure!(totals == (self.amounts[kind], self.moved[kind]), "totals {totals:?}");
        Ok(())
    }

    /// 6: nothing is drawn from a grant that has ended, or out of spend order; debt only when all is drawn.
    fn spend_order(&self, entry: &Entry, shown: &Snapshot) -> Check {
        let draws = matches!(
            entry.kind,
            Kind::Consume | Kind::AuthHold | Kind::Settle | Kind::Adjust | Kind::Clawback
        );
        if !draws || closes_out(entry) {
            return Ok(());
        }
        let drawn: BTreeMap<GrantId, Micro> = entry
            .debit_lines()
            .filter(|line| line.ledger_account == LedgerAccount::Available)
            .filter_map(|line| Some((line.grant?, line.amount.micros())))
            .collect();
        let debt = entry.debit_lines().any(|line| line.debt == DebtMark::Makes);
        if drawn.is_empty() && !debt {
            return Ok(());
        }
        let own = entry.answer.grant.as_ref().map(|grant| grant.id).filter(|_| entry.kind == Kind::Clawback);
        let at = entry.recorded_at;
        // A grant that this very set made or voided is judged as shown after it.
        let known = shown
            .grants
            .iter()
            .map(|after| self.before.iter().find(|old| old.id == after.id).unwrap_or(after));
        let mut order: Vec<&Grant> = known.collect();
        for (id, _) in drawn.iter().filter(|(id, _)| Some(**id) != own) {
            let live = order.iter().any(|grant| grant.id == *id && is_live(grant, at));
            ensure!(live, "drew from {id}, which was not live");
        }
        order.retain(|grant| is_live(grant, at) && Some(grant.id) != own);
        order.sort_by_key(|grant| {
            (grant.pool.code(), grant.expires_at.is_none(), grant.expires_at, grant.seq)
        });
        let last = order.iter().rposition(|grant| drawn.contains_key(&grant.id));
        let emptied = if debt { order.len() } else { last.unwrap_or(0) };
        for grant in &order[..emptied] {
            let had = self.grants.get(&grant.id).map_or(0, |sums| sums.remaining);
            let took = drawn.get(&grant.id).copied().unwrap_or(0);
            ensure!(had == took, "left {} in {} and drew on a later one", had - took, grant.id);
        }
        Ok(())
    }

    /// 2, 3 and 5 against what the subject shows.
    fn compare(&self, shown: &Snapshot, now: Instant) -> Check {
        let head = &shown.head;
        ensure!(
            head.available.micros() == self.available,
            "available {} is not its lines' {}",
            head.available,
            self.available
        );
        ensure!(head.held.micros() == self.held, "held {} is not its lines' {}", head.held, self.held);
        ensure!(head.debt.micros() == self.debt, "debt {} is not its lines' {}", head.debt, self.debt);
        ensure!(head.seq.0 == self.journal.last().map_or(0, |last| last.seq.0), "head at {}", head.seq);
        for kind in 0..Kind::COUNT {
            let totals = (head.totals.amount[kind].micros(), head.totals.moved[kind].micros());
            ensure!(totals == (self.amounts[kind], self.moved[kind]), "totals of kind {kind}");
        }
        let left: Micro = shown.grants.iter().map(|grant| grant.remaining.micros()).sum();
        ensure!(
            left - self.debt == self.available,
            "grants have {left}, debt {}, available {}",
            self.debt,
            self.available
        );
        let wrote_now = self.journal.last().is_some_and(|last| last.recorded_at == now);
        let live = shown.grants.iter().any(|grant| is_live(grant, now) && grant.remaining.is_positive());
        ensure!(!(wrote_now && live && self.debt > 0), "debt beside a live remainder");
        shown.grants.iter().try_for_each(|grant| self.grant(grant))?;
        let open = shown.holds.iter().filter(|hold| hold.status == HoldStatus::Open);
        let set_aside: Micro = open.flat_map(|hold| &hold.parts).map(|part| part.amount.micros()).sum();
        ensure!(set_aside == self.held, "open holds have {set_aside}, held {}", self.held);
        shown.holds.iter().try_for_each(|hold| self.hold_shown(hold))
    }

    fn grant(&self, grant: &Grant) -> Check {
        let none = GrantSums::default();
        let sums = self.grants.get(&grant.id).unwrap_or(&none);
        let id = grant.id;
        let (amount, remaining, reserved) =
            (grant.amount.micros(), grant.remaining.micros(), grant.reserved.micros());
        ensure!(amount == sums.made, "{id} is {amount}, made with {}", sums.made);
        ensure!(
            (remaining, reserved) == (sums.remaining, sums.reserved),
            "{id} has {remaining} and {reserved}, lines {sums:?}"
        );
        ensure!(
            0 <= remaining && remaining + reserved <= amount && reserved >= 0,
            "{id} has {remaining} of {amount}"
        );
        ensure!(grant.lapsed.micros() == sums.lapsed, "{id} lapsed {}, lines {}", grant.lapsed, sums.lapsed);
        ensure!(
            grant.paid_to_debt.micros() == sums.paid_to_debt,
            "{id} paid {}, lines {}",
            grant.paid_to_debt,
            sums.paid_to_debt
        );
        ensure!(
            sums.refunded <= sums.drawn + sums.paid_to_debt,
            "{id} got back more than was drawn: {sums:?}"
        );
        ensure!(
            grant.restored <= grant.clawed_back
                && grant.clawed_back.micros() - grant.restored.micros() <= amount,
            "{id} restored"
        );
        ensure!(grant.given_back_for_debt <= grant.paid_to_debt, "{id} got back more than it paid");
        ensure!(
            Credits::ZERO <= grant.lapse_taken && grant.lapse_taken <= grant.lapsed,
            "{id} taken of its lapse"
        );
        Ok(())
    }

    fn hold_shown(&self, hold: &Hold) -> Check {
        let none = HoldSums::default();
        let sums = self.holds.get(&hold.id).unwrap_or(&none);
        let parts: Micro = hold.parts.iter().map(|part| part.amount.micros()).sum();
        let amount = hold.amount.micros();
        ensure!(
            parts == amount && sums.reserved == amount,
            "hold {} of {amount} has parts of {parts}",
            hold.id
        );
        let shown = (hold.settled.micros(), hold.released.micros(), hold.reversed.micros());
        ensure!(
            shown == (sums.settled, sums.released, sums.reversed),
            "hold {} shows {shown:?}, lines {sums:?}",
            hold.id
        );
        let ended = hold.status != HoldStatus::Open;
        ensure!(
            ended == sums.ended_in.is_some(),
            "hold {} is {}, lines {sums:?}",
            hold.id,
            hold.status.as_str()
        );
        let whole = if ended { amount } else { 0 };
        ensure!(shown.0 + shown.1 + shown.2 == whole, "hold {} of {amount} ended with {shown:?}", hold.id);
        ensure!(hold.late_settle.is_some() == (sums.late_settles == 1), "hold {} late", hold.id);
        let longest = hold.renewed_at + chrono::Duration::seconds(i64::from(hold.lifetime_s));
        let oldest = hold.placed_at + chrono::Duration::hours(24);
        ensure!(hold.expires_at <= longest && hold.expires_at <= oldest, "hold {} lives too long", hold.id);
        Ok(())
    }

    /// 10: the balance as of `at`, by replay of what took effect up to then. What fell due by then and is not yet
    /// written can only be missing at the journal's end; `shown` is what it left.
    pub fn as_of(&self, at: Instant, shown: &Snapshot) -> View {
        let known = self.journal.partition_point(|entry| entry.effective_at <= at);
        let mut view = known.checked_sub(1).map_or(View { available: 0, held: 0, debt: 0 }, |last| {
            let last = &self.journal[last];
            let after = [last.available_after, last.held_after, last.debt_after].map(Credits::micros);
            View { available: after[0], held: after[1], debt: after[2] }
        });
        if known < self.journal.len() {
            return view;
        }
        let of_grant = |grant: &Grant| (grant.id, grant.remaining.micros());
        let mut left: BTreeMap<GrantId, Micro> = shown.grants.iter().map(of_grant).collect();
        let open = shown.holds.iter().filter(|hold| hold.status == HoldStatus::Open);
        let mut due: Vec<&Hold> = open.filter(|hold| hold.expires_at <= at).collect();
        due.sort_by_key(|hold| (hold.expires_at, hold.seq));
        for hold in due {
            for part in &hold.parts {
                let n = part.amount.micros();
                let live = |grant: &&Grant| grant.id == part.grant && is_live(grant, hold.expires_at);
                let pays = if shown.grants.iter().any(|grant| live(&grant)) { n.min(view.debt) } else { 0 };
                view.debt -= pays;
                view.available += n;
                view.held -= n;
                *left.entry(part.grant).or_default() += n - pays;
            }
        }
        let ended = shown.grants.iter().filter(|grant| !is_live(grant, at));
        view.available -= ended.map(|grant| left[&grant.id]).sum::<Micro>();
        view
    }
}

/// What an erased account closes out is no draw: all of it goes, when it came back.
fn closes_out(entry: &Entry) -> bool {
    entry.kind == Kind::Adjust && !entry.is_main
}

/// In the answer to a write everything is as its entry set left it.
fn answered(set: &[Entry], shown: &Snapshot, now: Instant) -> Check {
    let Some(main) = set.iter().find(|entry| entry.is_main) else { return Ok(()) };
    if let Some(view) = &main.answer.grant {
        let left =
            shown.grants.iter().find(|grant| grant.id == view.id).map(|grant| GrantView::of(grant, now));
        ensure!(Some(view) == left.as_ref(), "invariant, answer: {view:?}, the set left {left:?}");
    }
    if let Some(view) = &main.answer.hold {
        let left = shown.holds.iter().find(|hold| hold.id == view.id).map(HoldView::of);
        ensure!(Some(view) == left.as_ref(), "invariant, answer: {view:?}, the set left {left:?}");
    }
    let hold = matches!(main.kind, Kind::AuthHold | Kind::Settle | Kind::AuthRelease | Kind::AuthReversal);
    let renewed = main.note == Some(NoteKind::HoldRenewed);
    ensure!(!(hold || renewed) || main.answer.hold.is_some(), "invariant, answer: without its hold");
    let grant = matches!(main.kind, Kind::Topup | Kind::Void | Kind::Clawback);
    let extended = main.note == Some(NoteKind::GrantExtended);
    ensure!(!(grant || extended) || main.answer.grant.is_some(), "invariant, answer: without its grant");
    Ok(())
}

fn is_live(grant: &Grant, at: Instant) -> bool {
    grant.voided_at.is_none() && grant.expires_at.is_none_or(|end| at < end)
}

/// The ledger accounts of a kind's debit and credit lines.
fn allowed(kind: Kind, direction: Direction) -> &'static [LedgerAccount] {
    use LedgerAccount::{
        Adjustment, Available, BadDebt, ExpirationGain, Held, PrepaidLiability, PromotionExpense,
        RefundExpense, Revenue,
    };
    match (kind, direction) {
        (Kind::Topup, Direction::Debit) => &[PrepaidLiability, PromotionExpense],
        (Kind::Topup, Direction::Credit) => &[Available],
        (Kind::Consume, Direction::Debit) => &[Available],
        (Kind::Consume | Kind::Settle, Direction::Credit) => &[Revenue],
        (Kind::AuthHold, Direction::Debit) => &[Available],
        (Kind::AuthHold, Direction::Credit) => &[Held],
        (Kind::Settle, Direction::Debit) => &[Held, Available],
        (Kind::AuthRelease | Kind::AuthReversal, Direction::Debit) => &[Held],
        (Kind::AuthRelease | Kind::AuthReversal, Direction::Credit) => &[Available],
        (Kind::Refund, Direction::Debit) => &[RefundExpense],
        (Kind::Refund, Direction::Credit) => &[Available, BadDebt],
        (Kind::Clawback, Direction::Debit) => &[Available, ExpirationGain],
        (Kind::Clawback, Direction::Credit) => &[PrepaidLiability],
        (Kind::Restore, Direction::Debit) => &[PrepaidLiability],
        (Kind::Restore, Direction::Credit) => &[Available, BadDebt, ExpirationGain],
        (Kind::Expire | Kind::Void, Direction::Debit) => &[Available],
        (Kind::Expire | Kind::Void, Direction::Credit) => &[ExpirationGain],
        (Kind::Adjust, Direction::Debit) => &[Adjustment, BadDebt, Available],
        (Kind::Adjust, Direction::Credit) => &[Available, Adjustment],
        (Kind::Note, _) => &[],
    }
}
