//! Parts of pages. A component gets values and gives markup; the async ones read through the handles of a
//! [`crate::session::Visit`]. One history table for all roles.

pub mod entry_detail;
pub mod errors;
pub mod filter_form;
pub mod frame;
pub mod history_table;
pub mod history_view;
pub mod overview_view;
pub mod page;
pub mod paid;
#[cfg(test)]
pub mod samples;
pub mod usage_chart;
