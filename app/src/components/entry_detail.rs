//! One entry with its lines.

use backoffice::access::User;
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use ledger::entry::{DebtMark, Entry, Line};
use ledger::ids::Seq;
use leptos::prelude::*;

use super::frame::Tab;
use super::history_view::readable_account;
use super::page::Shown;
use super::paid::GrantNames;
use crate::error::AppError;
use crate::format::{Local, amount, most_places, number_class, signed};
use crate::history::place::Place;
use crate::history::query::{self, HistoryQuery};
use crate::session::Visit;
use crate::words;

pub async fn entry_detail(visit: Visit, user: User, place: Place, seq: Seq) -> Result<Shown, AppError> {
    let account = readable_account(&visit, &user, place).await?;
    let query = query::parse(visit.query()).query.only_zone();
    let zone = query.zone.resolve(&account.time_zone);
    let entry = visit.ledger.entry(account.id, seq).await?.ok_or(AppError::NotFound)?;
    let entries = [entry];
    let names = GrantNames::of(&visit.ledger, account.id, &entries).await?;
    let [entry] = &entries;
    let heading = format!("Entry {seq}: {}", words::title(entry));
    let body = view! {
        <p class="crumb"><a href=place.history(&query)>"History"</a></p>
        <div class="head"><h1>{heading.clone()}</h1></div>
        <dl class="facts">{facts(entry, place, &query, zone)}</dl>
        {lines_table(entry, &names, place, &query)}
        <details class="proof">
            <summary>"Proof"</summary>
            <p>"Each entry’s hash covers the entry, its lines and the hash of the entry before it."</p>
            <p><code>{hex(&entry.hash)}</code></p>
        </details>
    }
    .into_any();
    Ok(Shown { title: heading, tab: Tab::History, place: Some(place), status: None, body })
}

fn facts(entry: &Entry, place: Place, query: &HistoryQuery, zone: Tz) -> Vec<AnyView> {
    let text = |name: &'static str, value: Option<String>| {
        value.map(|value| fact(name, view! { {value} }.into_any()))
    };
    let call = &entry.call;
    let time = |at: DateTime<Utc>| {
        let local = Local::of(at, zone);
        let line = local.line();
        view! { <time datetime=local.utc>{line}</time> }.into_any()
    };
    let moved = (!entry.moved.is_zero()).then(|| words::effect(entry));
    let balance = entry.available_after.plus(entry.held_after).ok().map(amount);
    let debt = (!entry.debt_after.is_zero()).then(|| amount(entry.debt_after));
    let reverses = entry.reverses.map(|seq| {
        fact("Belongs to", view! { <a href=place.entry(seq, query)>{format!("entry {seq}")}</a> }.into_any())
    });
    let all = [
        Some(fact(
            "Change of balance",
            view! { <b data-testid="amount">{signed(entry.amount)}</b> }.into_any(),
        )),
        text("Between available and held", moved),
        text("Balance after it", balance),
        text("Available after it", Some(amount(entry.available_after))),
        text("Held after it", Some(amount(entry.held_after))),
        text("Debt after it", debt),
        Some(fact("Effective", time(entry.effective_at))),
        (entry.occurred_at != entry.effective_at)
            .then(|| fact("Happened, by the caller", time(entry.occurred_at))),
        (entry.recorded_at != entry.effective_at).then(|| fact("Recorded", time(entry.recorded_at))),
        text("Request reference", call.request_ref.clone()),
        text("Model", call.model.clone()),
        text("Member", call.member.clone()),
        text("Key reference", call.key_ref.clone()),
        text("Job", call.job_id.clone()),
        text("Hold", entry.hold.map(|hold| hold.to_string())),
        reverses,
        text("Reason", entry.words.reason.clone()),
        text("Kind", Some(entry.kind.as_str().to_owned())),
        Some(fact("Times in", view! { {zone.name()} }.into_any())),
    ];
    all.into_iter().flatten().collect()
}

fn fact(name: &'static str, value: AnyView) -> AnyView {
    view! { <div><dt>{name}</dt><dd>{value}</dd></div> }.into_any()
}

fn lines_table(entry: &Entry, names: &GrantNames, place: Place, query: &HistoryQuery) -> AnyView {
    if entry.lines.is_empty() {
        return view! { <p class="none">"This entry moves no credits, so it has no lines."</p> }.into_any();
    }
    let places = Places {
        amount: most_places(entry.lines.iter().map(|line| line.amount)),
        after: most_places(entry.lines.iter().filter_map(|line| line.balance_after)),
    };
    let rows: Vec<AnyView> =
        entry.lines.iter().map(|line| line_row(line, names, place, query, places)).collect();
    view! {
        <div class="table" role="region" aria-label="Lines of this entry" tabindex="0">
            <table>
                <caption>"Lines: debits and credits, equal in sum"</caption>
                <thead>
                    <tr>
                        <th scope="col">"Ledger account"</th>
                        <th scope="col">"Side"</th>
                        <th scope="col">"Grant"</th>
                        <th scope="col" class="n">"Amount"</th>
                        <th scope="col" class="n">"After it"</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
    .into_any()
}

/// Decimal places of the two number columns.
#[derive(Clone, Copy)]
struct Places {
    amount: usize,
    after: usize,
}

fn line_row(line: &Line, names: &GrantNames, place: Place, query: &HistoryQuery, places: Places) -> AnyView {
    let grant = line.grant.map(|grant| match names.name(grant) {
        (name, Some(seq)) => view! { <a href=place.entry(seq, query)>{name}</a> }.into_any(),
        (name, None) => view! { {name} }.into_any(),
    });
    let debt = match line.debt {
        DebtMark::None => None,
        DebtMark::Makes => Some(" makes debt"),
        DebtMark::Pays => Some(" pays debt"),
    };
    let after = match line.balance_after {
        Some(after) => view! { <td class=number_class(after, places.after)>{amount(after)}</td> }.into_any(),
        None => view! { <td></td> }.into_any(),
    };
    view! {
        <tr>
            <td>{line.ledger_account.as_str().replace('_', " ")}</td>
            <td>{line.direction.as_str()}</td>
            <td>{grant}{debt}</td>
            <td class=number_class(line.amount, places.amount)>{amount(line.amount)}</td>
            {after}
        </tr>
    }
    .into_any()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
