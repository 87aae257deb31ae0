//! The ledger on a real Postgres. Each test has a database of its own.
#![expect(clippy::disallowed_methods, reason = "tests make their own ids")]

mod cases;
mod guards;
mod races;
mod rounds;
mod support;
