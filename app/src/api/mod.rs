//! Server functions, one file each. Each is thin: who is it, parse, one verb, map the result.
//!
//! A server function is a public endpoint whatever page shows it, so its first line is its guard. Writes are
//! POST only. Those that a plain form posts to live on the server alone; those that an island calls are
//! compiled in both halves. To add one: a file here, a fixed `endpoint`, and its row in the rights table.

pub mod load_balance;
#[cfg(feature = "ssr")]
pub mod set_theme;
#[cfg(feature = "ssr")]
pub mod sign_in;
#[cfg(feature = "ssr")]
pub mod sign_out;

/// Where all of them are mounted; `#[server(prefix = …)]` wants it as a literal.
pub const PREFIX: &str = "/api";
