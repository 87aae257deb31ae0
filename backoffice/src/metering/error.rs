//! What can go wrong between a price list and a price.

use super::price::TokenClass;

/// Why a written number was not taken as a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    #[error("is not a JSON number")]
    NotANumber,
    /// More digits than can be reckoned with exactly. Nothing is cut off to make it fit.
    #[error("has more digits than can be kept exactly")]
    TooLong,
    #[error("is below zero")]
    Negative,
}

/// Why a call has no price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    #[error("the model has no price for {} tokens", .0.as_str())]
    NoPrice(TokenClass),
    /// The product has more digits than can be kept exactly, or is larger than any balance.
    #[error("the price cannot be reckoned exactly: too many digits")]
    TooLong,
}

/// Why a price map was not taken at all. A single odd entry does not stop an import: it is listed as skipped.
#[derive(Debug, thiserror::Error)]
pub enum RateCardError {
    #[error("the price map is not a JSON object of models: {0}")]
    NotAPriceMap(#[from] serde_json::Error),
    #[error("the price map names {0:?} twice")]
    NamedTwice(String),
}
