//! The history of an account: its query, as the URL, the screen and the CSV share it, and the CSV.

pub mod csv;
pub mod place;
pub mod query;
