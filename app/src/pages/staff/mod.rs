//! Pages of staff: any account, with the components that its owner sees.

mod account_pages;
mod accounts_page;
mod start;

pub use account_pages::{AccountEntryPage, AccountHistoryPage, AccountOverviewPage};
pub use accounts_page::AccountsPage;
pub use start::start_view;
