//! `/accounts`: find an account.

use backoffice::access::rights::{self, Right};
use ledger::service::{AccountView, PageRequest};
use leptos::prelude::*;

use crate::components::frame::Tab;
use crate::components::history_view::account_name;
use crate::components::page::{Shown, signed_in};
use crate::error::AppError;
use crate::format::{amount, most_places, number_class};
use crate::history::place::{Naming, Place};
use crate::history::query::HistoryQuery;
use crate::session::Visit;

/// Accounts of a page.
const ROWS: u32 = 50;
/// Characters of a search that are looked at.
const SEARCH_MAX: usize = 255;

#[component]
pub fn AccountsPage() -> impl IntoView {
    signed_in(|visit, user| async move {
        rights::may(&user, Right::ListAccounts)?;
        show(&visit).await
    })
}

async fn show(visit: &Visit) -> Result<Shown, AppError> {
    let (q, cursor) = asked(visit.query());
    let page = visit.ledger.accounts(&q, &PageRequest { cursor, limit: ROWS }).await?;
    let list = if page.rows.is_empty() { none(&q) } else { table(&page.rows) };
    let link = |cursor: &Option<String>, rel: &'static str, text: &'static str| {
        let href = format!("/accounts?{}", pairs(&q, cursor.as_deref()?));
        Some(view! { <li><a rel=rel href=href>{text}</a></li> })
    };
    let (previous, next) = (link(&page.previous, "prev", "Previous"), link(&page.next, "next", "Next"));
    let pager = (previous.is_some() || next.is_some())
        .then(|| view! { <nav class="pager" aria-label="Pages of the list"><ul>{previous}{next}</ul></nav> });
    let body = view! {
        <div class="head"><h1>"Accounts"</h1></div>
        {search_form(&q)}
        {list}
        <div class="below">{pager}</div>
    }
    .into_any();
    Ok(Shown { title: "Accounts".to_owned(), tab: Tab::Accounts, place: None, status: None, body })
}

fn asked(raw: &str) -> (String, Option<String>) {
    let (mut q, mut cursor) = (String::new(), None);
    for (name, value) in form_urlencoded::parse(raw.as_bytes()) {
        match &*name {
            "q" => q = value.trim().chars().take(SEARCH_MAX).collect(),
            "cursor" if !value.is_empty() => cursor = Some(value.into_owned()),
            _ => {}
        }
    }
    (q, cursor)
}

fn pairs(q: &str, cursor: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair("q", q).append_pair("cursor", cursor).finish()
}

/// One box for everything an account can be known by.
pub fn search_form(q: &str) -> AnyView {
    view! {
        <form class="search" method="get" action="/accounts" role="search">
            <label for="q">"Name, e-mail, reference or id"</label>
            <input type="search" id="q" name="q" value=q.to_owned() autocomplete="off" spellcheck="false"/>
            <button class="button" type="submit">"Find"</button>
        </form>
    }
    .into_any()
}

fn none(q: &str) -> AnyView {
    if q.is_empty() {
        return view! { <div class="state" data-testid="empty"><h2>"No accounts yet"</h2><p>"They are opened through the API."</p></div> }.into_any();
    }
    view! {
        <div class="state" data-testid="nothing-matches">
            <h2>"No account matches"</h2>
            <p>"A name, an e-mail address or a reference is found by how it begins; an id has to be whole."</p>
            <p class="actions"><a class="button" href="/accounts">"Clear search"</a></p>
        </div>
    }
    .into_any()
}

fn table(accounts: &[AccountView]) -> AnyView {
    let available_places = most_places(accounts.iter().map(|account| account.balance.available));
    let held_places = most_places(accounts.iter().map(|account| account.balance.held));
    let number = |credits, places| view! { <td class=number_class(credits, places)>{amount(credits)}</td> };
    let rows: Vec<AnyView> = accounts
        .iter()
        .map(|account| {
            let href = Place { account: account.id, naming: Naming::Path }.overview(&HistoryQuery::default());
            view! {
                <tr>
                    <th scope="row"><a href=href>{account_name(account)}</a></th>
                    <td>{account.email.clone()}</td>
                    <td>{account.external_ref.clone()}</td>
                    <td>{account.status.as_str().replace('_', "-")}</td>
                    {number(account.balance.available, available_places)}
                    {number(account.balance.held, held_places)}
                </tr>
            }
            .into_any()
        })
        .collect();
    view! {
        <div class="table" role="region" aria-label="Accounts" tabindex="0">
            <table>
                <caption class="hidden">"Accounts"</caption>
                <thead>
                    <tr>
                        <th scope="col">"Account"</th><th scope="col">"E-mail"</th><th scope="col">"Reference"</th><th scope="col">"State"</th>
                        <th scope="col" class="n">"Available"</th><th scope="col" class="n">"Held"</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
    .into_any()
}
