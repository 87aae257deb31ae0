//! Every limit of the ledger, named once.

use crate::credits::Credits;

/// The largest amount of one command: 10^12 credits.
pub fn amount_max() -> Credits {
    Credits::from_micros(1_000_000_000_000 * crate::credits::MILLION).unwrap_or_default()
}

/// The largest balance an incoming command may lead to: 10^13 credits.
pub fn balance_max() -> Credits {
    Credits::from_micros(10_000_000_000_000 * crate::credits::MILLION).unwrap_or_default()
}

/// Live grants of an account.
pub const GRANTS_LIVE_MAX: usize = 10_000;
/// Open holds of an account.
pub const HOLDS_OPEN_MAX: usize = 1_000;
/// A hold ends at the latest this long after it was placed, however often it is renewed.
pub const HOLD_AGE_MAX_S: u32 = 24 * 3_600;
/// Bytes of an idempotency key.
pub const IDEMPOTENCY_KEY_MAX: usize = 255;
/// Bytes of an entry's metadata as JSON.
pub const METADATA_BYTES_MAX: usize = 8 * 1024;
/// Commands of one `/v1/batch`.
pub const BATCH_COMMANDS_MAX: usize = 500;
