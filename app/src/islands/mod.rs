//! What runs in the browser. This is all that the wasm half compiles: no router, no ledger, no clock.
//!
//! An island gets ready-made strings and ids, never an amount or an instant to format, so that both halves
//! render the same. To add one: a file here with an `#[island]`, and use it in a page. The page has to be
//! whole without it.

mod live_balance;

pub use live_balance::LiveBalance;
