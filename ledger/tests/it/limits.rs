//! The limits that generated histories do not come near: live grants and open holds of an account.
//!
//! The rows are put into the state by hand; deciding a command for each of them would only cost time.

use chrono::Duration;
use ledger::Credits;
use ledger::command::{Command, Expiry, Verb};
use ledger::grant::Pool;
use ledger::hold::HoldPart;
use ledger::ids::{GrantId, HoldId};
use ledger::refusal::{Limit, Refusal};
use uuid::Uuid;

use crate::generate::{History, generate};
use crate::histories::{Ran, Subject};
use crate::model::Instant;
use crate::subjects::Core;

/// An account with one grant of 5 for ever and one hold of 1 for 100 s, and the instant at which both were made.
fn account() -> (Core, Command, Instant) {
    let history = History { quotas: Vec::new(), ..generate(1) };
    let (open, now) = (history.steps[0].command.clone(), history.steps[0].now);
    let mut core = Core::new(&history);
    core.run(&open, now).unwrap();
    core.run(&with(&open, grant(1)), now).unwrap();
    core.run(&with(&open, hold(2)), now).unwrap();
    (core, open, now)
}

fn with(command: &Command, verb: Verb) -> Command {
    Command { key: None, verb, ..command.clone() }
}

fn grant(id: u128) -> Verb {
    let (id, amount) = (GrantId(Uuid::from_u128(id)), Credits::whole(5));
    Verb::Grant { id, amount, pool: Pool::Paid, expires: Expiry::Never, source: None }
}

fn hold(id: u128) -> Verb {
    Verb::Hold { id: HoldId(Uuid::from_u128(id)), amount: Credits::whole(1), expires_in_s: Some(100) }
}

#[test]
fn ten_thousand_live_grants_are_the_most() {
    let (mut core, open, now) = account();
    let first = core.state.grants[&GrantId(Uuid::from_u128(1))].clone();
    for number in 0..9_998_u128 {
        let id = GrantId(Uuid::from_u128(1_000 + number));
        core.state.grants.insert(id, ledger::grant::Grant { id, amount: Credits::whole(5), ..first.clone() });
    }
    let last = with(&open, grant(100_000));
    assert!(matches!(core.run(&last, now), Ok(Ran::Posted(_))), "the 10,000th is taken");
    let more = with(&open, grant(100_001));
    assert_eq!(core.run(&more, now).unwrap_err(), Refusal::LimitExceeded { limit: Limit::LiveGrants });
}

#[test]
fn a_thousand_open_holds_are_the_most_and_one_that_falls_due_makes_room() {
    let (mut core, open, now) = account();
    let first = core.state.holds[&HoldId(Uuid::from_u128(2))].clone();
    let parts = vec![HoldPart { grant: GrantId(Uuid::from_u128(1)), amount: Credits::ZERO }];
    for number in 0..998_u128 {
        let id = HoldId(Uuid::from_u128(1_000 + number));
        let expires_at = first.expires_at + Duration::seconds(1);
        let empty = ledger::hold::Hold {
            id,
            amount: Credits::ZERO,
            parts: parts.clone(),
            expires_at,
            ..first.clone()
        };
        core.state.holds.insert(id, empty);
    }
    assert!(matches!(core.run(&with(&open, hold(100_000)), now), Ok(Ran::Posted(_))), "the 1,000th is taken");
    let more = with(&open, hold(100_001));
    assert_eq!(core.run(&more, now).unwrap_err(), Refusal::LimitExceeded { limit: Limit::OpenHolds });
    let due = now + Duration::seconds(100);
    assert!(matches!(core.run(&more, due), Ok(Ran::Posted(_))), "holds that fell due no longer count");
}
