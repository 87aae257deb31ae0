//! The journal of prepaid credits: who was given how much, what it paid for, and what is left.
//!
//! Money moves on one road: a [`command::Command`] goes to the [`poster`], which loads a [`decide::State`],
//! asks [`decide::decide`], and writes the decision through [`store`]. Nothing else writes journal tables.
//! This crate knows no web, no payment provider and no user.

pub mod account;
pub mod chain;
pub mod command;
pub mod credits;
mod cursor;
pub mod decide;
pub mod entry;
pub mod grant;
mod history;
pub mod hold;
pub mod ids;
pub mod limits;
pub mod policy;
pub mod poster;
pub mod quota;
pub mod refusal;
pub mod service;
mod store;
pub mod verify;

pub use credits::Credits;
pub use history::History;
pub use service::Ledger;
pub use store::connect::{APP_ROLE, Database};

/// The journal's and the other rooms' migrations, in order.
pub static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!("../migrations");
