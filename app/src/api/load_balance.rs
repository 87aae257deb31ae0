//! What the balance island shows, as ready-made text.

use leptos::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::AppError;

/// An account's balance as it is shown: text that both halves print unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceFigures {
    pub available: String,
    pub held: String,
    pub balance: String,
    /// Empty when nothing is owed.
    pub debt: String,
    /// Whether new calls are refused, in plain words; empty when they are not.
    pub stopped: String,
    /// Local time of the figures with its zone.
    pub as_of: String,
    /// The same instant for machines.
    pub as_of_utc: String,
}

/// The balance of an account now. Times are in the named zone of the page: `tz` as in the URL.
#[server(prefix = "/api", endpoint = "load_balance")]
pub async fn load_balance(account: String, tz: String) -> Result<BalanceFigures, AppError> {
    crate::figures::load(&account, &tz).await
}
