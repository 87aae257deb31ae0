//! `/history/{seq}`: one entry of one's own account.

use ledger::ids::Seq;
use leptos::prelude::*;

use crate::components::entry_detail::entry_detail;
use crate::components::page::signed_in;
use crate::history::place::Place;
use crate::pages::parameter;

#[component]
pub fn EntryPage() -> impl IntoView {
    let seq = parameter("seq").map(Seq);
    signed_in(move |visit, user| async move {
        let place = Place::own(&user, visit.query())?;
        entry_detail(visit, user, place, seq?).await
    })
}
