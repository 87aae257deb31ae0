//! The one table of entries: a customer's history, staff's view of it, and the recent entries of an overview.

use chrono_tz::Tz;
use ledger::Credits;
use ledger::entry::Entry;
use ledger::service::EntryTotals;
use leptos::prelude::*;

use super::paid::{GrantNames, paid_from};
use crate::format::{Local, amount, most_places, number_class, signed};
use crate::history::place::Place;
use crate::history::query::HistoryQuery;
use crate::words;

/// Grants named in a row; an entry may draw on thousands.
const GRANTS_SHOWN: usize = 3;

/// What stands in the foot of the table.
pub enum Foot {
    None,
    Totals(EntryTotals),
    /// A link that asks for the totals, since the whole filter has to be walked for them.
    Ask(String),
}

/// Rows and what is needed to show them.
pub struct Rows<'a> {
    /// What fell due but is not written yet; it stands above the entries.
    pub pending: &'a [Entry],
    pub entries: &'a [Entry],
    pub names: &'a GrantNames,
    pub place: Place,
    pub query: &'a HistoryQuery,
    pub zone: Tz,
}

/// Decimal places of the two number columns.
#[derive(Clone, Copy)]
struct Widths {
    amount: usize,
    balance: usize,
}

pub fn history_table(rows: &Rows, caption: String, foot: Foot) -> AnyView {
    let total = match &foot {
        Foot::Totals(totals) => Some(totals.amount),
        Foot::None | Foot::Ask(_) => None,
    };
    let widths = Widths {
        amount: most_places(shown(rows).map(|entry| entry.amount).chain(total)),
        balance: most_places(shown(rows).filter_map(balance_after)),
    };
    let pending = rows.pending.iter().map(|entry| row(rows, entry, Standing::Due, widths));
    let written = rows.entries.iter().map(|entry| row(rows, entry, Standing::Written, widths));
    let body: Vec<AnyView> = pending.chain(written).collect();
    let label = caption.clone();
    // The roles keep it a table for assistive technology where the stylesheet lays narrow rows out as slips.
    view! {
        <div class="table" role="region" aria-label=label tabindex="0">
            <table class="entries" role="table">
                <caption>{caption}</caption>
                <thead role="rowgroup">
                    <tr role="row">
                        <th scope="col" role="columnheader">"Time"</th>
                        <th scope="col" role="columnheader">"Entry"</th>
                        <th scope="col" role="columnheader">"Reference"</th>
                        <th scope="col" role="columnheader">"Grant"</th>
                        <th scope="col" role="columnheader">"Effect"</th>
                        <th scope="col" role="columnheader" class="n">"Amount"</th>
                        <th scope="col" role="columnheader" class="n">"Balance"</th>
                    </tr>
                </thead>
                <tbody role="rowgroup">{body}</tbody>
                {foot_rows(foot, widths)}
            </table>
        </div>
    }
    .into_any()
}

/// Whether a row stands in the journal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Written,
    /// It fell due; the next entry or the sweep writes it. Until then it has no page of its own.
    Due,
}

fn shown<'a>(rows: &'a Rows) -> impl Iterator<Item = &'a Entry> {
    rows.pending.iter().chain(rows.entries)
}

/// `None` only beyond what any balance can hold.
fn balance_after(entry: &Entry) -> Option<Credits> {
    entry.available_after.plus(entry.held_after).ok()
}

fn row(rows: &Rows, entry: &Entry, standing: Standing, widths: Widths) -> AnyView {
    let at = Local::of(entry.effective_at, rows.zone);
    let balance = balance_after(entry).unwrap_or_default();
    let class = |credits, most| number_class(credits, most);
    view! {
        <tr role="row" data-testid=(standing == Standing::Due).then_some("pending")>
            <td role="cell"><time datetime=at.utc>{at.day}" "<span>{at.time}</span></time></td>
            <td role="cell">{title(rows, entry, standing)}{what(entry)}</td>
            <td role="cell" class="ref">{entry.call.request_ref.clone()}</td>
            <td role="cell">{grants(rows, entry)}</td>
            <td role="cell">{words::effect(entry)}</td>
            <td role="cell" class=class(entry.amount, widths.amount) data-sign=sign(entry.amount)>{signed(entry.amount)}</td>
            <td role="cell" class=class(balance, widths.balance)>{amount(balance)}</td>
        </tr>
    }
    .into_any()
}

fn title(rows: &Rows, entry: &Entry, standing: Standing) -> AnyView {
    match standing {
        Standing::Written => {
            view! { <a href=rows.place.entry(entry.seq, rows.query)>{words::title(entry)}</a> }.into_any()
        }
        Standing::Due => {
            view! { <span>{words::title(entry)}</span><small>"in effect, not yet written down"</small> }
                .into_any()
        }
    }
}

fn sign(amount: Credits) -> Option<&'static str> {
    if amount.is_positive() { Some("in") } else { None }
}

/// Model and member below the entry's name.
fn what(entry: &Entry) -> Option<AnyView> {
    let parts: Vec<&str> =
        [entry.call.model.as_deref(), entry.call.member.as_deref(), entry.words.reason.as_deref()]
            .into_iter()
            .flatten()
            .collect();
    (!parts.is_empty()).then(|| view! { <small>{parts.join(" · ")}</small> }.into_any())
}

fn grants(rows: &Rows, entry: &Entry) -> Vec<AnyView> {
    let parts = paid_from(entry);
    let is_split = parts.len() > 1;
    let hidden = parts.len().saturating_sub(GRANTS_SHOWN);
    let mut views: Vec<AnyView> = parts
        .into_iter()
        .take(GRANTS_SHOWN)
        .map(|(grant, part)| {
            let share = is_split.then(|| format!(" {}", amount(part)));
            match grant.map(|grant| rows.names.name(grant)) {
                Some((name, Some(seq))) => {
                    view! { <span><a href=rows.place.entry(seq, rows.query)>{name}</a>{share}</span> }
                        .into_any()
                }
                Some((name, None)) => view! { <span>{name}{share}</span> }.into_any(),
                None => view! { <span>"debt"{share}</span> }.into_any(),
            }
        })
        .collect();
    if hidden > 0 {
        views.push(view! { <span>{format!("and {hidden} more")}</span> }.into_any());
    }
    views
}

fn foot_rows(foot: Foot, widths: Widths) -> Option<AnyView> {
    match foot {
        Foot::None => None,
        Foot::Totals(totals) => {
            let count = if totals.count == 1 {
                "1 entry".to_owned()
            } else {
                format!("{} entries", grouped(totals.count))
            };
            Some(
                view! {
                    <tfoot role="rowgroup">
                        <tr role="row" data-testid="totals">
                            <th scope="row" role="rowheader" colspan="5">"Total of "{count}</th>
                            <td role="cell" class=number_class(totals.amount, widths.amount)>{signed(totals.amount)}</td>
                            <td role="cell"></td>
                        </tr>
                    </tfoot>
                }
                .into_any(),
            )
        }
        Foot::Ask(href) => Some(
            view! {
                <tfoot role="rowgroup">
                    <tr role="row"><td role="cell" colspan="7"><a href=href>"Sum up all entries of this filter"</a></td></tr>
                </tfoot>
            }
            .into_any(),
        ),
    }
}

fn grouped(count: i64) -> String {
    amount(Credits::from_micros(i128::from(count) * ledger::credits::MILLION).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::samples::entry;
    use crate::history::place::Naming;

    #[test]
    fn c15_a_small_charge_shows_its_own_digits_in_the_history() {
        let entries = [entry(3, "-0.0768")];
        let rows = Rows {
            pending: &[],
            entries: &entries,
            names: &GrantNames::default(),
            place: Place { account: entries[0].account, naming: Naming::Implied },
            query: &HistoryQuery::default(),
            zone: Tz::UTC,
        };
        let html = Owner::new().with(|| history_table(&rows, "History".to_owned(), Foot::None).to_html());
        assert!(html.contains("-0.0768</td>"), "{html}");
        assert!(html.contains(">12</td>"), "balance after: {html}");
        assert!(!html.contains("+0"), "{html}");
        assert!(
            html.contains("<tbody role=\"rowgroup\"><tr role=\"row\">") && !html.contains(" style="),
            "{html}"
        );
    }

    #[test]
    fn c21_what_is_due_stands_above_the_entries_without_a_link() {
        let (entries, pending) = ([entry(3, "-0.5")], [entry(4, "-7")]);
        let rows = Rows {
            pending: &pending,
            entries: &entries,
            names: &GrantNames::default(),
            place: Place { account: entries[0].account, naming: Naming::Implied },
            query: &HistoryQuery::default(),
            zone: Tz::UTC,
        };
        let html = Owner::new().with(|| history_table(&rows, "History".to_owned(), Foot::None).to_html());
        let (due, rest) = html.split_once("not yet written down").unwrap();
        assert!(due.contains("data-testid=\"pending\"") && !due.contains("/history/"), "{html}");
        assert!(rest.contains("/history/3") && !rest.contains("data-testid"), "{html}");
    }
}
