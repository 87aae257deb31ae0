//! Pages of a customer's own accounts.

mod entry_page;
mod history_page;

pub use entry_page::EntryPage;
pub use history_page::HistoryPage;
