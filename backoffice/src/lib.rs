//! What people and outside systems do around the journal. Knows the ledger, and no web.
//!
//! Each room has a `mod.rs` with its verbs, its types, and a `repo.rs` that holds all its SQL. Money moves
//! only through [`ledger::Ledger`]; no room writes a journal table or keeps a transaction open while it
//! waits for the ledger.

pub mod access;
pub mod metering;

/// What every page must know about the running instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Time is set by hand here; every page says so.
    pub test_clock: bool,
    /// The address people use, such as `https://credits.example.org`, without a slash at the end.
    pub base_url: Option<String>,
}
