//! `/history`: every entry of one's own account.

use leptos::prelude::*;

use crate::components::history_view::history_view;
use crate::components::page::signed_in;
use crate::history::place::Place;

#[component]
pub fn HistoryPage() -> impl IntoView {
    signed_in(|visit, user| async move {
        let place = Place::own(&user, visit.query())?;
        history_view(visit, user, place).await
    })
}
