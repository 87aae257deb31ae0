//! The history of an account, for whoever may read it.

use axum::http::StatusCode;
use backoffice::access::{User, rights};
use chrono_tz::Tz;
use ledger::History;
use ledger::service::{AccountView, Page, PageRequest};
use leptos::prelude::*;

use super::filter_form::filter_form;
use super::frame::Tab;
use super::history_table::{Foot, Rows, history_table};
use super::page::Shown;
use super::paid::GrantNames;
use crate::error::AppError;
use crate::history::place::{Naming, Place};
use crate::history::query::{self, HistoryQuery, Parsed, ZoneChoice};
use crate::session::Visit;

/// Entries of a page.
const ROWS: u32 = 50;

/// Loads and shows.
pub async fn history_view(visit: Visit, user: User, place: Place) -> Result<Shown, AppError> {
    let account = readable_account(&visit, &user, place).await?;
    let mut parsed = query::parse(visit.query());
    let zone = parsed.query.zone.resolve(&account.time_zone);
    let list = if parsed.problems.is_empty() {
        match list(&visit, &account, &parsed, place, zone).await {
            Err(AppError::Invalid(problems)) => {
                parsed.problems = problems;
                ().into_any()
            }
            other => other?,
        }
    } else {
        ().into_any()
    };
    let status = (!parsed.problems.is_empty()).then_some(StatusCode::BAD_REQUEST);
    let account_line = account_line(&visit, &account, &user, place, Tab::History).await?;
    let title = if status.is_some() { "Error: History" } else { "History" };
    let body = view! {
        <div class="head">
            <h1>"History"</h1>
            {account_line}
        </div>
        {filter_form(&parsed, place, &account.time_zone)}
        {zone_switch(&parsed.query, place, &account.time_zone)}
        {list}
    }
    .into_any();
    Ok(Shown { title: title.to_owned(), tab: Tab::History, place: Some(place), status, body })
}

/// The account, when it exists and the person may read it.
pub async fn readable_account(visit: &Visit, user: &User, place: Place) -> Result<AccountView, AppError> {
    let may = rights::may_read(user, place.account)?;
    visit.ledger.account(may.account()).await?.ok_or(AppError::NotFound)
}

async fn list(
    visit: &Visit,
    account: &AccountView,
    parsed: &Parsed,
    place: Place,
    zone: Tz,
) -> Result<AnyView, AppError> {
    let query = &parsed.query;
    let asked = query.entry_query(zone);
    let request = PageRequest { cursor: query.cursor.clone(), limit: ROWS };
    let History { pending, page } = visit.ledger.history(account.id, &asked, &request).await?;
    if page.rows.is_empty() && pending.is_empty() {
        return Ok(empty(query, place));
    }
    let foot = if query.is_cheap_to_sum() || query.sum {
        Foot::Totals(visit.ledger.history_totals(account.id, &asked).await?)
    } else {
        Foot::Ask(place.history(&query.summed()))
    };
    let names = GrantNames::of(&visit.ledger, account.id, pending.iter().chain(&page.rows)).await?;
    let rows = Rows { pending: &pending, entries: &page.rows, names: &names, place, query, zone };
    let caption = format!("Entries, newest first. Times in {}.", zone.name());
    let table = history_table(&rows, caption, foot);
    Ok(view! {
        {table}
        <div class="below">
            {pager(&page, query, place)}
            <p><a href=place.csv(query) download>"Download all as CSV"</a></p>
        </div>
    }
    .into_any())
}

/// Nothing to show: because of the filter, because the page lies beyond the end, or because nothing happened yet.
fn empty(query: &HistoryQuery, place: Place) -> AnyView {
    if query.cursor.is_some() {
        return view! {
            <div class="state" data-testid="past-the-end">
                <h2>"Nothing on this page"</h2>
                <p>"The list ends before it."</p>
                <p class="actions"><a class="button" href=place.history(&query.first_page())>"Go to the newest entries"</a></p>
            </div>
        }
        .into_any();
    }
    if query.is_filtered() {
        return view! {
            <div class="state" data-testid="nothing-matches">
                <h2>"Nothing matches this filter"</h2>
                <p>"The account has entries; none of them is what the filter asks for."</p>
                <p class="actions"><a class="button" href=place.history(&query.only_zone())>"Clear filter"</a></p>
            </div>
        }
        .into_any();
    }
    view! {
        <div class="state" data-testid="empty">
            <h2>"No entries yet"</h2>
            <p>"As soon as credits are added or used, each movement is listed here."</p>
        </div>
    }
    .into_any()
}

fn pager<T>(page: &Page<T>, query: &HistoryQuery, place: Place) -> AnyView {
    let newest = query
        .cursor
        .is_some()
        .then(|| view! { <li><a href=place.history(&query.first_page())>"Newest"</a></li> });
    let newer = page
        .previous
        .as_deref()
        .map(|cursor| view! { <li><a rel="prev" href=place.history(&query.page(cursor))>"Newer"</a></li> });
    let older = page
        .next
        .as_deref()
        .map(|cursor| view! { <li><a rel="next" href=place.history(&query.page(cursor))>"Older"</a></li> });
    if newest.is_none() && newer.is_none() && older.is_none() {
        return ().into_any();
    }
    view! { <nav class="pager" aria-label="Pages of the history"><ul>{newest}{newer}{older}</ul></nav> }
        .into_any()
}

fn zone_switch(query: &HistoryQuery, place: Place, account_zone: &str) -> AnyView {
    let own = ZoneChoice::Account.resolve(account_zone).name();
    let link = |zone: ZoneChoice, text: String| {
        let is_on = query.zone == zone;
        view! { <li><a href=place.history(&query.in_zone(zone)) aria-current=is_on.then_some("true")>{text}</a></li> }
    };
    let other = match query.zone {
        ZoneChoice::Named(zone) => Some(link(query.zone, zone.name().to_owned())),
        ZoneChoice::Account | ZoneChoice::Utc => None,
    };
    view! {
        <nav class="zones" aria-label="Time zone">
            <span>"Times in"</span>
            <ul>{link(ZoneChoice::Account, format!("{own} (account)"))}{link(ZoneChoice::Utc, "UTC".to_owned())}{other}</ul>
        </nav>
    }
    .into_any()
}

/// The other accounts of one person that are named in the switch.
const SWITCH_MAX: usize = 50;

pub fn account_name(account: &AccountView) -> String {
    account.name.clone().or_else(|| account.external_ref.clone()).unwrap_or_else(|| account.id.to_string())
}

/// Whose account it is, and the switch to the person's others.
pub async fn account_line(
    visit: &Visit,
    account: &AccountView,
    user: &User,
    place: Place,
    tab: Tab,
) -> Result<AnyView, AppError> {
    if place.naming != Naming::Parameter {
        return Ok(view! { <p class="account">{account_name(account)}</p> }.into_any());
    }
    let mut options: Vec<AnyView> = Vec::new();
    for id in user.accounts.iter().copied().take(SWITCH_MAX) {
        let name = match visit.ledger.account(rights::may_read(user, id)?.account()).await? {
            Some(other) => account_name(&other),
            None => id.to_string(),
        };
        options.push(
            view! { <option value=id.to_string() selected=id == account.id>{name}</option> }.into_any(),
        );
    }
    let action = if tab == Tab::History { "/history" } else { "/" };
    Ok(view! {
        <form class="account" method="get" action=action>
            <label for="account">"Account"</label>
            <select id="account" name="account">{options}</select>
            <button type="submit">"Switch"</button>
        </form>
    }
    .into_any())
}
