//! The ledger on a real Postgres. Each test has a database of its own.
#![expect(clippy::disallowed_methods, reason = "tests make their own ids")]

#[cfg(test)]
mod cases;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod races;
#[cfg(test)]
mod rounds;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tamper;
