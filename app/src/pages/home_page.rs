//! `/`: a customer's overview, or where staff begin.

use backoffice::access::Role;
use leptos::prelude::*;

use crate::components::overview_view::overview_view;
use crate::components::page::signed_in;
use crate::history::place::Place;
use crate::pages::staff::start_view;

#[component]
pub fn HomePage() -> impl IntoView {
    signed_in(|visit, user| async move {
        match user.role {
            Role::Customer => {
                let place = Place::own(&user, visit.query())?;
                overview_view(visit, user, place).await
            }
            Role::Support | Role::Finance | Role::Admin => Ok(start_view(&user)),
        }
    })
}
