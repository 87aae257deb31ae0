//! The lines that each kind asks for: the table of kinds in the architecture page, as a check of one entry.

use crate::entry::{DebtMark, Direction, Entry, Kind, LedgerAccount, Line};
use crate::grant::Pool;

/// What a line is, as far as the table of kinds asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// `available` of a grant, and which way.
    Grant(Direction),
    Held(Direction),
    MakesDebt,
    /// Paid out of a grant, or by a write-off or by what comes back.
    GrantPaysDebt,
    PaysDebt,
    /// `expiration_gain`, which names the grant whose end it was.
    Gain(Direction),
    House(LedgerAccount, Direction),
}

fn place(line: &Line) -> Option<Place> {
    let gains = line.ledger_account == LedgerAccount::ExpirationGain;
    Some(match (line.ledger_account, line.direction, line.debt, line.grant.is_some()) {
        (LedgerAccount::Available, direction, DebtMark::None, true) => Place::Grant(direction),
        (LedgerAccount::Available, Direction::Debit, DebtMark::Makes, false) => Place::MakesDebt,
        (LedgerAccount::Available, Direction::Credit, DebtMark::Pays, true) => Place::GrantPaysDebt,
        (LedgerAccount::Available, Direction::Credit, DebtMark::Pays, false) => Place::PaysDebt,
        (LedgerAccount::Held, direction, DebtMark::None, true) => Place::Held(direction),
        (LedgerAccount::ExpirationGain, direction, DebtMark::None, true) => Place::Gain(direction),
        (house, direction, DebtMark::None, false) if !house.is_customers() && !gains => {
            Place::House(house, direction)
        }
        _ => return None,
    })
}

/// Where an entry's lines are not those of its kind: what is wrong.
pub(super) fn fault(entry: &Entry) -> Option<String> {
    if (entry.kind == Kind::Note) != entry.note.is_some() {
        return Some("is a note without its kind, or the other way round".to_owned());
    }
    let places: Option<Vec<Place>> = entry.lines.iter().map(place).collect();
    let Some(places) = places else {
        return Some("has a line with a grant or debt mark that no kind asks for".to_owned());
    };
    let fits = if places.is_empty() { may_be_empty(entry.kind) } else { fits(entry, &places) };
    (!fits).then(|| format!("its lines are not those of {}", entry.kind.as_str()))
}

/// Usage priced at 0, a hold of 0 and its end, a void of nothing left. Everything else of 0 is refused, or never written.
fn may_be_empty(kind: Kind) -> bool {
    match kind {
        Kind::Note
        | Kind::Consume
        | Kind::AuthHold
        | Kind::Settle
        | Kind::AuthRelease
        | Kind::AuthReversal
        | Kind::Void => true,
        Kind::Topup | Kind::Refund | Kind::Clawback | Kind::Restore | Kind::Expire | Kind::Adjust => false,
    }
}

fn fits(entry: &Entry, places: &[Place]) -> bool {
    use Direction::{Credit, Debit};
    use LedgerAccount::{PrepaidLiability, PromotionExpense, RefundExpense, Revenue};
    let house = |account, direction| Place::House(account, direction);
    match entry.kind {
        Kind::Topup => {
            let from = match entry.answer.pool {
                Some(Pool::Paid) => PrepaidLiability,
                Some(Pool::Trial | Pool::Promo) => PromotionExpense,
                None => return false,
            };
            funds(entry, places, from)
        }
        Kind::Consume => ends_with(places, house(Revenue, Credit), |place| *place == Place::Grant(Debit)),
        Kind::AuthHold => sets_aside(entry, places),
        Kind::Settle => settles(places),
        Kind::AuthRelease | Kind::AuthReversal => places
            .iter()
            .all(|place| matches!(place, Place::Held(Debit) | Place::Grant(Credit) | Place::GrantPaysDebt)),
        Kind::Refund => begins_with(places, house(RefundExpense, Debit), |place| comes_back(*place)),
        Kind::Restore => begins_with(places, house(PrepaidLiability, Debit), |place| {
            comes_back(*place) || *place == Place::Gain(Credit)
        }),
        Kind::Clawback => ends_with(places, house(PrepaidLiability, Credit), |place| {
            matches!(place, Place::Grant(Debit) | Place::MakesDebt | Place::Gain(Debit))
        }),
        Kind::Expire | Kind::Void => {
            let same =
                entry.lines.first().map(|line| line.grant) == entry.lines.last().map(|line| line.grant);
            same && *places == [Place::Grant(Debit), Place::Gain(Credit)]
        }
        Kind::Adjust => adjusts(entry, places),
        Kind::Note => false,
    }
}

fn comes_back(place: Place) -> bool {
    matches!(
        place,
        Place::Grant(Direction::Credit)
            | Place::GrantPaysDebt
            | Place::PaysDebt
            | Place::House(LedgerAccount::BadDebt, Direction::Credit)
    )
}

fn begins_with(places: &[Place], first: Place, rest: impl Fn(&Place) -> bool) -> bool {
    places
        .split_first()
        .is_some_and(|(place, others)| *place == first && !others.is_empty() && others.iter().all(rest))
}

fn ends_with(places: &[Place], last: Place, rest: impl Fn(&Place) -> bool) -> bool {
    places
        .split_last()
        .is_some_and(|(place, others)| *place == last && !others.is_empty() && others.iter().all(rest))
}

/// One line to debt and one for the rest, or one of them; both name the new grant.
fn funds(entry: &Entry, places: &[Place], from: LedgerAccount) -> bool {
    let Some((Place::House(account, Direction::Debit), into)) = places.split_first() else { return false };
    let shape = matches!(
        into,
        [Place::GrantPaysDebt | Place::Grant(Direction::Credit)]
            | [Place::GrantPaysDebt, Place::Grant(Direction::Credit)]
    );
    let made = entry.answer.grant.as_ref().map(|grant| grant.id);
    *account == from && shape && made.is_some() && entry.credit_lines().all(|line| line.grant == made)
}

/// Pairs: out of available and into held, of one grant and one amount.
fn sets_aside(entry: &Entry, places: &[Place]) -> bool {
    let pair = |places: &[Place]| *places == [Place::Grant(Direction::Debit), Place::Held(Direction::Credit)];
    let same = |lines: &[Line]| match lines {
        [out, into] => out.grant == into.grant && out.amount == into.amount,
        _ => false,
    };
    places.chunks(2).all(pair) && entry.lines.chunks(2).all(same)
}

/// Held, then available of grants, then debt.
fn settles(places: &[Place]) -> bool {
    let order = |place: &Place| match place {
        Place::Held(Direction::Debit) => Some(0),
        Place::Grant(Direction::Debit) => Some(1),
        Place::MakesDebt => Some(2),
        _ => None,
    };
    let revenue = Place::House(LedgerAccount::Revenue, Direction::Credit);
    ends_with(places, revenue, |place| order(place).is_some()) && places.iter().filter_map(order).is_sorted()
}

/// A plus, a write-off, or a minus, which closes out an erased account too.
fn adjusts(entry: &Entry, places: &[Place]) -> bool {
    use LedgerAccount::{Adjustment, BadDebt};
    match places.first() {
        Some(Place::House(Adjustment, Direction::Debit)) => funds(entry, places, Adjustment),
        Some(first @ Place::House(BadDebt, Direction::Debit)) => *places == [*first, Place::PaysDebt],
        _ => ends_with(places, Place::House(Adjustment, Direction::Credit), |place| {
            matches!(place, Place::Grant(Direction::Debit) | Place::MakesDebt)
        }),
    }
}
