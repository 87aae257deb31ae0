//! Everything that answers HTTP and is no page of the app.
//!
//! `v1` is the API; `problem` the one shape of errors; `docs` and `problem_pages` what people read about it.

pub mod assets;
pub mod body;
mod docs;
mod health;
mod html;
pub mod metrics;
pub mod pages;
pub mod problem;
mod problem_pages;
pub mod v1;

pub use docs::reader_page;
pub use health::{live, ready};
pub use problem_pages::{problem_index, problem_page};
