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

use bench::{Bench, at, credits, lines_of};
