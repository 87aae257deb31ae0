//! Tests of the core by example, on a [`Bench`] that holds one account, decides, applies, and checks the
//! invariants of the model after every set.

mod bench;
mod cases;
mod debt;
mod histories;
mod holds;
mod jobs;
mod lapses;
mod limits;
mod lines;
mod loaded;
mod signals;

pub(crate) use bench::{Bench, at, credits};

use bench::lines_of;
