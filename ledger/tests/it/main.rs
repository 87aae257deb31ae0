//! One binary for everything that is proved of the ledger from outside the crate.
//!
//! - `model` predicts what each command must lead to, from the design alone; it shares no code with `decide`.
//! - `generate` makes histories of commands from a seed.
//! - `invariants` checks what must hold after every step, from the journal alone.
//! - `subjects` are the pure core on one state, and on states loaded for each round as a store does.
//! - `database` is the whole ledger on a real Postgres with a test clock.
//! - `histories` runs the same history through the model and through a subject, and compares.
//!
//! To prove another subject (such as the one behind a database), implement `histories::Subject` for it and
//! hand it to `histories::check`. To add a verb: its prediction in `model`, its making in `generate`, and what
//! must be reached of it in `reach::MUST_REACH`.

#[cfg(test)]
mod database;
#[cfg(test)]
mod dice;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod model;
#[cfg(test)]
mod reach;
#[cfg(test)]
mod subjects;
#[cfg(test)]
#[path = "../db/support.rs"]
#[expect(dead_code, reason = "the database tests use the rest")]
mod support;
