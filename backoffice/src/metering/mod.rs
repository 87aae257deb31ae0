//! Usage becomes credits here: a rate card prices a call in exact dollars, a [`Rate`] turns dollars into
//! credits, rounded once.
//!
//! The room is pure: it holds no clock and no database. To add a token class: a variant of [`TokenClass`], its
//! field name in the price map (`rate_card.rs`), and a figure in the tests that was worked out elsewhere.

mod dollars;
mod error;
mod price;
mod rate_card;

pub use dollars::Dollars;
pub use error::{NumberError, PriceError, RateCardError};
pub use price::{ModelPrice, Rate, TokenClass, Tokens};
pub use rate_card::{RateCard, Skipped};
