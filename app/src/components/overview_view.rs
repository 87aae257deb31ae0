//! The overview of an account: what is left, what holds it, what ends next, where it went.

use backoffice::access::User;
use chrono::{DateTime, Days, Utc};
use chrono_tz::Tz;
use ledger::History;
use ledger::account::AccountStatus;
use ledger::hold::{HoldStatus, HoldView};
use ledger::service::{AccountView, BalanceView, EntryQuery, Page, PageRequest};
use leptos::prelude::*;

use super::frame::Tab;
use super::history_table::{Foot, Rows, history_table};
use super::history_view::{account_line, readable_account};
use super::page::Shown;
use super::paid::GrantNames;
use super::usage_chart::{Usage, usage_chart};
use crate::error::AppError;
use crate::figures::figures;
use crate::format::{Local, amount, day_start, most_places, number_class, relative};
use crate::history::place::Place;
use crate::history::query::{self, HistoryQuery};
use crate::islands::LiveBalance;
use crate::session::Visit;

/// Days of the chart, today included.
const DAYS: u64 = 30;
/// Open holds that are named.
const HOLDS: u32 = 5;
/// Recent entries that are shown.
const RECENT: u32 = 10;
const RECENT_ROWS: usize = 10;

pub async fn overview_view(visit: Visit, user: User, place: Place) -> Result<Shown, AppError> {
    let account = readable_account(&visit, &user, place).await?;
    // The zone is the only part of the list state that an overview has.
    let query = query::parse(visit.query()).query.only_zone();
    let zone = query.zone.resolve(&account.time_zone);
    let now = account.balance.as_of;
    let holds = visit
        .ledger
        .holds(account.id, Some(HoldStatus::Open), &PageRequest { cursor: None, limit: HOLDS })
        .await?;
    let usage = load_usage(&visit, &account, now, zone).await?;
    let recent = recent(&visit, &account, place, &query, zone).await?;
    let first = figures(&account.balance, zone);
    let line = account_line(&visit, &account, &user, place, Tab::Overview).await?;
    let body = view! {
        <div class="head"><h1>"Overview"</h1>{line}</div>
        {state_note(account.status)}
        <section class="sheet" aria-labelledby="h-balance">
            <h2 id="h-balance" class="hidden">"Balance"</h2>
            <LiveBalance account=account.id.to_string() tz=zone.name().to_owned() first=first/>
        </section>
        <div class="columns">
            <section aria-labelledby="h-held"><h2 id="h-held">"Held now"</h2>{held(&holds, &account.balance, zone, now)}</section>
            <section aria-labelledby="h-ends"><h2 id="h-ends">"Ends next"</h2>{expiries(&account.balance, zone, now)}</section>
        </div>
        <section aria-labelledby="h-usage"><h2 id="h-usage">"Use by day"</h2>{usage_chart(&usage, zone.name())}</section>
        <section aria-labelledby="h-recent">
            <h2 id="h-recent">"Recent entries"</h2>
            {recent}
            <p class="below"><a href=place.history(&query)>"All entries"</a></p>
        </section>
    }
    .into_any();
    Ok(Shown { title: "Overview".to_owned(), tab: Tab::Overview, place: Some(place), status: None, body })
}

async fn load_usage(
    visit: &Visit,
    account: &AccountView,
    now: DateTime<Utc>,
    zone: Tz,
) -> Result<Usage, AppError> {
    let last = now.with_timezone(&zone).date_naive();
    let first = last.checked_sub_days(Days::new(DAYS - 1)).unwrap_or(last);
    let from = day_start(first, zone).unwrap_or(now);
    let rows = visit.ledger.usage_by_day(account.id, from, now, zone).await?;
    Usage::of(&rows, first, last)
}

async fn recent(
    visit: &Visit,
    account: &AccountView,
    place: Place,
    query: &HistoryQuery,
    zone: Tz,
) -> Result<AnyView, AppError> {
    let latest = PageRequest { cursor: None, limit: RECENT };
    let History { mut pending, mut page } =
        visit.ledger.history(account.id, &EntryQuery::default(), &latest).await?;
    pending.truncate(RECENT_ROWS);
    page.rows.truncate(RECENT_ROWS - pending.len());
    if page.rows.is_empty() && pending.is_empty() {
        return Ok(view! { <p class="none">"Nothing has happened yet."</p> }.into_any());
    }
    let names = GrantNames::of(&visit.ledger, account.id, pending.iter().chain(&page.rows)).await?;
    let rows = Rows { pending: &pending, entries: &page.rows, names: &names, place, query, zone };
    Ok(history_table(&rows, format!("The latest entries. Times in {}.", zone.name()), Foot::None))
}

/// What the account's state means, where it is not open.
fn state_note(status: AccountStatus) -> Option<AnyView> {
    let text = match status {
        AccountStatus::Open => return None,
        AccountStatus::ReadOnly => {
            "This account is read-only: new calls are refused, running ones are finished."
        }
        AccountStatus::Blocked => "This account is blocked: new calls are refused.",
        AccountStatus::Closed => "This account is closed.",
    };
    Some(view! { <p class="notice" role="note">{text}</p> }.into_any())
}

fn held(holds: &Page<HoldView>, balance: &BalanceView, zone: Tz, now: DateTime<Utc>) -> AnyView {
    if holds.rows.is_empty() {
        return view! { <p class="none">"Nothing is held: no call is running."</p> }.into_any();
    }
    let places = most_places(holds.rows.iter().map(|hold| hold.amount).chain([balance.held]));
    let rows: Vec<AnyView> = holds.rows.iter().map(|hold| hold_row(hold, zone, now, places)).collect();
    let caption = if holds.next.is_some() {
        "The newest running calls; there are more."
    } else {
        "Running calls and what they hold."
    };
    view! {
        <table>
            <caption class="hidden">{caption}</caption>
            <thead><tr><th scope="col">"Call"</th><th scope="col">"Held until"</th><th scope="col" class="n">"Held"</th></tr></thead>
            <tbody>{rows}</tbody>
            <tfoot><tr><th scope="row" colspan="2">"All running calls"</th><td class=number_class(balance.held, places)>{amount(balance.held)}</td></tr></tfoot>
        </table>
    }
    .into_any()
}

fn hold_row(hold: &HoldView, zone: Tz, now: DateTime<Utc>, places: usize) -> AnyView {
    let call = &hold.call;
    let parts: Vec<&str> = [call.model.as_deref(), call.request_ref.as_deref(), call.member.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    let name = if parts.is_empty() { format!("hold #{}", hold.seq) } else { parts.join(" · ") };
    view! { <tr><td>{name}</td><td>{ends(hold.expires_at, zone, now)}</td><td class=number_class(hold.amount, places)>{amount(hold.amount)}</td></tr> }
        .into_any()
}

fn expiries(balance: &BalanceView, zone: Tz, now: DateTime<Utc>) -> AnyView {
    if balance.next_expiries.is_empty() {
        return view! { <p class="none">"No credits have an end date."</p> }.into_any();
    }
    let places = most_places(balance.next_expiries.iter().map(|next| next.remaining));
    let rows: Vec<AnyView> = balance
        .next_expiries
        .iter()
        .map(|next| {
            let class = number_class(next.remaining, places);
            view! { <tr><td>{ends(next.expires_at, zone, now)}</td><td class=class>{amount(next.remaining)}</td></tr> }.into_any()
        })
        .collect();
    view! {
        <table>
            <caption class="hidden">"Credits that end next, soonest first."</caption>
            <thead><tr><th scope="col">"Ends"</th><th scope="col" class="n">"Credits"</th></tr></thead>
            <tbody>{rows}</tbody>
        </table>
    }
    .into_any()
}

fn ends(at: DateTime<Utc>, zone: Tz, now: DateTime<Utc>) -> AnyView {
    let local = Local::of(at, zone);
    let line = local.line();
    view! { <time datetime=local.utc>{line}</time><small>{relative(at, now)}</small> }.into_any()
}
