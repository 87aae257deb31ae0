//! `/accounts/{id}`, its history and its entries.

use ledger::ids::Seq;
use leptos::prelude::*;

use crate::components::entry_detail::entry_detail;
use crate::components::history_view::history_view;
use crate::components::overview_view::overview_view;
use crate::components::page::signed_in;
use crate::error::AppError;
use crate::history::place::{Naming, Place};
use crate::pages::parameter;

/// The account of the path. Whether the person may read it is asked where it is read.
fn place() -> Result<Place, AppError> {
    parameter("id").map(|account| Place { account, naming: Naming::Path })
}

#[component]
pub fn AccountOverviewPage() -> impl IntoView {
    let place = place();
    signed_in(move |visit, user| async move { overview_view(visit, user, place?).await })
}

#[component]
pub fn AccountHistoryPage() -> impl IntoView {
    let place = place();
    signed_in(move |visit, user| async move { history_view(visit, user, place?).await })
}

#[component]
pub fn AccountEntryPage() -> impl IntoView {
    let place = place();
    let seq = parameter("seq").map(Seq);
    signed_in(move |visit, user| async move { entry_detail(visit, user, place?, seq?).await })
}
