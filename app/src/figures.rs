//! The balance as ready-made text, the same for the first render and for the island's later looks.

use backoffice::access::rights;
use chrono_tz::Tz;
use ledger::Credits;
use ledger::ids::AccountId;
use ledger::service::BalanceView;

use crate::api::load_balance::BalanceFigures;
use crate::error::AppError;
use crate::format::{Local, amount};
use crate::session::Visit;
use crate::words;

/// For the server function: checks who asks, then reads.
pub async fn load(account: &str, tz: &str) -> Result<BalanceFigures, AppError> {
    let visit = Visit::begin()?;
    let user = visit.user().await?.ok_or(AppError::SignedOut)?;
    let account = account.parse::<AccountId>().map_err(|_| AppError::BadRequest)?;
    let zone = tz.parse::<Tz>().map_err(|_| AppError::BadRequest)?;
    let may = rights::may_read(&user, account)?;
    let balance = visit.ledger.balance(may.account(), None).await?.ok_or(AppError::NotFound)?;
    Ok(figures(&balance, zone))
}

pub fn figures(balance: &BalanceView, zone: Tz) -> BalanceFigures {
    let as_of = Local::of(balance.as_of, zone);
    BalanceFigures {
        available: amount(balance.available),
        held: amount(balance.held),
        balance: amount(balance.balance),
        debt: if balance.debt == Credits::ZERO { String::new() } else { amount(balance.debt) },
        stopped: words::stopped(balance),
        as_of: as_of.line(),
        as_of_utc: as_of.utc,
    }
}
