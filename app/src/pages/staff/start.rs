//! Where staff begin: what they may do, and the search.

use backoffice::access::rights::{self, Right};
use backoffice::access::{Role, User};
use leptos::prelude::*;

use super::accounts_page::search_form;
use crate::components::frame::Tab;
use crate::components::page::Shown;

pub fn start_view(user: &User) -> Shown {
    let role = match user.role {
        Role::Customer => "customer",
        Role::Support => "support",
        Role::Finance => "finance",
        Role::Admin => "administration",
    };
    let can = [
        (Right::ListAccounts, "Find any account by its name, e-mail address, reference or id."),
        (
            Right::ReadAccount,
            "Open its overview and its history, exactly as its owner sees them, and take them away as CSV.",
        ),
    ];
    let items: Vec<AnyView> = can
        .into_iter()
        .filter(|(right, _)| rights::may(user, *right).is_ok())
        .map(|(_, text)| view! { <li>{text}</li> }.into_any())
        .collect();
    let body = view! {
        <div class="head"><h1>"Start"</h1></div>
        {search_form("")}
        <section aria-labelledby="h-can">
            <h2 id="h-can">{format!("What you can do here as {role}")}</h2>
            <ul class="plain">{items}</ul>
        </section>
    }
    .into_any();
    Shown { title: "Start".to_owned(), tab: Tab::Home, place: None, status: None, body }
}
