//! Use by day and model: a plot, its legend, and the same numbers as a table.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use ledger::Credits;
use ledger::service::UsageRow;
use leptos::prelude::*;

use crate::charts::{Plot, SERIES_MAX, stacked_days};
use crate::error::AppError;
use crate::format::{amount, day, most_places, number_class};

/// Use by day, with the models in the order of their use.
pub struct Usage {
    series: Vec<String>,
    days: Vec<(NaiveDate, Vec<Credits>)>,
    total: Credits,
}

impl Usage {
    /// Every day from `first` to `last` has a row, also where nothing was used. The least used models are
    /// added up when there are more than can be told apart.
    pub fn of(rows: &[UsageRow], first: NaiveDate, last: NaiveDate) -> Result<Usage, AppError> {
        let plus = |a: Credits, b: Credits| a.plus(b).map_err(|_| AppError::Internal);
        let mut by_model: BTreeMap<Option<&str>, Credits> = BTreeMap::new();
        for row in rows {
            let sum = by_model.entry(row.model.as_deref()).or_default();
            *sum = plus(*sum, row.amount)?;
        }
        let mut models: Vec<(Option<&str>, Credits)> = by_model.into_iter().collect();
        models.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
        let named = if models.len() > SERIES_MAX { SERIES_MAX - 1 } else { models.len() };
        let mut series: Vec<String> =
            models.iter().take(named).map(|(model, _)| model.unwrap_or("no model").to_owned()).collect();
        if models.len() > named {
            series.push(format!("{} other models", models.len() - named));
        }
        let dates: Vec<NaiveDate> = first.iter_days().take_while(|date| *date <= last).collect();
        let mut days: Vec<(NaiveDate, Vec<Credits>)> =
            dates.into_iter().map(|date| (date, vec![Credits::ZERO; series.len()])).collect();
        let mut total = Credits::ZERO;
        for row in rows {
            let at = models
                .iter()
                .position(|(model, _)| *model == row.model.as_deref())
                .unwrap_or(0)
                .min(series.len().saturating_sub(1));
            let cell =
                days.iter_mut().find(|(date, _)| *date == row.day).and_then(|(_, parts)| parts.get_mut(at));
            if let Some(cell) = cell {
                *cell = plus(*cell, row.amount)?;
                total = plus(total, row.amount)?;
            }
        }
        Ok(Usage { series, days, total })
    }

    fn day_total(parts: &[Credits]) -> Credits {
        Credits::sum(parts.iter().copied()).unwrap_or_default()
    }
}

pub fn usage_chart(usage: &Usage, zone_name: &str) -> AnyView {
    let title = "Credits used by day";
    let total = amount(usage.total);
    let span = match (usage.days.first(), usage.days.last()) {
        (Some((first, _)), Some((last, _))) => format!("{} to {}", day(*first), day(*last)),
        _ => String::new(),
    };
    let text = format!("{total} credits used from {span}. The same numbers stand in the table below.");
    let parts: Vec<Vec<Credits>> = usage.days.iter().map(|(_, parts)| parts.clone()).collect();
    let Some(plot) = stacked_days(title, &text, &parts) else {
        return view! { <p class="none">"Nothing was used in the last 30 days."</p> }.into_any();
    };
    let legend: Vec<AnyView> = usage
        .series
        .iter()
        .enumerate()
        .map(|(at, name)| view! { <li><i class=format!("s{}", at + 1)></i>{name.clone()}</li> }.into_any())
        .collect();
    view! {
        <figure class="chart">
            <figcaption><b data-testid="usage-total">{total}</b>{format!(" credits used, {span}, days of {zone_name}")}</figcaption>
            {drawn(plot, usage)}
            <ul class="legend">{legend}</ul>
            {table(usage)}
        </figure>
    }
    .into_any()
}

fn drawn(plot: Plot, usage: &Usage) -> AnyView {
    let below = amount(plot.bottom);
    let edge = |at: Option<&(NaiveDate, Vec<Credits>)>| at.map(|(date, _)| date.format("%-d %b").to_string());
    view! {
        <div class="plot" aria-hidden="true"><span>{amount(plot.top)}</span><span>{below}</span></div>
        <div class="bars" inner_html=plot.svg></div>
        <div class="days" aria-hidden="true"><span>{edge(usage.days.first())}</span><span>{edge(usage.days.last())}</span></div>
    }
    .into_any()
}

fn table(usage: &Usage) -> AnyView {
    let is_split = usage.series.len() > 1;
    let heads: Vec<AnyView> = if is_split {
        usage
            .series
            .iter()
            .map(|name| view! { <th scope="col" class="n">{name.clone()}</th> }.into_any())
            .collect()
    } else {
        Vec::new()
    };
    let places = most_places(
        usage.days.iter().flat_map(|(_, parts)| parts.iter().copied().chain([Usage::day_total(parts)])),
    );
    let number = |credits: Credits| {
        view! { <td class=number_class(credits, places)>{amount(credits)}</td> }.into_any()
    };
    let rows: Vec<AnyView> = usage
        .days
        .iter()
        .rev()
        .filter(|(_, parts)| parts.iter().any(|part| !part.is_zero()))
        .map(|(date, parts)| {
            let cells: Vec<AnyView> =
                if is_split { parts.iter().copied().map(number).collect() } else { Vec::new() };
            view! { <tr><th scope="row">{day(*date)}</th>{cells}{number(Usage::day_total(parts))}</tr> }
                .into_any()
        })
        .collect();
    view! {
        <details>
            <summary>"These numbers as a table"</summary>
            <div class="table" role="region" aria-label="Credits used by day" tabindex="0">
                <table>
                    <caption>"Credits used by day. Days without use are left out."</caption>
                    <thead><tr><th scope="col">"Day"</th>{heads}<th scope="col" class="n">"Total"</th></tr></thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
        </details>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::samples::credits;

    fn row(day: &str, model: &str, amount: &str) -> UsageRow {
        UsageRow { day: day.parse().unwrap(), model: Some(model.to_owned()), amount: credits(amount) }
    }

    #[test]
    fn c15_two_models_on_two_days_add_up_to_three() {
        let rows = [
            row("2026-11-01", "a", "0.75"),
            row("2026-11-01", "b", "0.75"),
            row("2026-11-02", "a", "0.75"),
            row("2026-11-02", "b", "0.75"),
        ];
        let usage = Usage::of(&rows, "2026-11-01".parse().unwrap(), "2026-11-02".parse().unwrap()).unwrap();
        assert_eq!(usage.total, credits("3"));
        assert_eq!(Usage::day_total(&usage.days[0].1), credits("1.5"));
    }

    #[test]
    fn many_models_keep_their_sum() {
        let rows: Vec<UsageRow> =
            (1..=9).map(|at| row("2026-11-01", &format!("m{at}"), &at.to_string())).collect();
        let day = "2026-11-01".parse().unwrap();
        let usage = Usage::of(&rows, day, day).unwrap();
        assert_eq!(usage.series, ["m9", "m8", "m7", "m6", "m5", "4 other models"]);
        assert_eq!(usage.days[0].1[5], credits("10"));
        assert_eq!(usage.total, credits("45"));
    }
}
