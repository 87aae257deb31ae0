//! The filter of a history: a plain GET form, so that its state is the URL.

use ledger::entry::Kind;
use leptos::prelude::*;

use super::errors::{beside, fault_of, summary};
use crate::error::Field;
use crate::format::{amount, day};
use crate::history::place::Place;
use crate::history::query::{HistoryQuery, Parsed};
use crate::words;

/// In front of the ids of the controls.
const PREFIX: &str = "f-";

/// A single-line control: its field where one can be wrong, its name, label and kind of input.
struct Control {
    field: Option<Field>,
    name: &'static str,
    label: &'static str,
    input: &'static str,
    inputmode: Option<&'static str>,
}

const fn text(name: &'static str, label: &'static str) -> Control {
    Control { field: None, name, label, input: "text", inputmode: None }
}

const fn checked(
    field: Field,
    name: &'static str,
    label: &'static str,
    input: &'static str,
    inputmode: Option<&'static str>,
) -> Control {
    Control { field: Some(field), name, label, input, inputmode }
}

const CONTROLS: [Control; 9] = [
    checked(Field::From, "from", "From", "date", None),
    checked(Field::To, "to", "To", "date", None),
    text("model", "Model"),
    text("member", "Member"),
    text("request_ref", "Request reference"),
    text("key_ref", "Key reference"),
    checked(Field::Min, "min", "At least", "text", Some("decimal")),
    checked(Field::Max, "max", "At most", "text", Some("decimal")),
    checked(Field::Zone, "tz", "Time zone", "text", None),
];

pub fn filter_form(parsed: &Parsed, place: Place, account_zone: &str) -> AnyView {
    let is_open = !parsed.problems.is_empty();
    let is_filtered = parsed.query.is_filtered();
    let controls: Vec<AnyView> =
        CONTROLS.iter().map(|control| control_view(control, parsed, account_zone)).collect();
    let kinds: Vec<AnyView> =
        Kind::ALL.iter().map(|kind| kind_view(*kind, parsed.query.kinds.contains(kind))).collect();
    let carried =
        place.parameter().map(|(name, value)| view! { <input type="hidden" name=name value=value/> });
    let sum = parsed.query.sum.then(|| view! { <input type="hidden" name="sum" value="1"/> });
    let problems = (!parsed.problems.is_empty()).then(|| summary(&parsed.problems, PREFIX));
    view! {
        {problems}
        <details class="filter" open=is_open>
            <summary>{if is_filtered { "Change filter" } else { "Filter" }}</summary>
            <form method="get" action=place.history_path() role="search" aria-label="Filter the history">
                {carried}
                {sum}
                <fieldset class="kinds" id=format!("{PREFIX}kind") tabindex="-1">
                    <legend>"Kinds of entry"</legend>
                    {kinds}
                </fieldset>
                <div class="fields">{controls}</div>
                <p class="actions"><button class="button" type="submit">"Show"</button></p>
            </form>
        </details>
        {(is_filtered || is_open).then(|| active(&parsed.query, place))}
    }
    .into_any()
}

/// What the filter asks for in words, so that the form can stay closed, and the way out of it.
fn active(query: &HistoryQuery, place: Place) -> AnyView {
    let kinds = query.kinds.iter().map(|kind| words::kind(*kind).to_owned());
    let days = [("from", query.from), ("to", query.to)];
    let texts = [
        ("model", &query.model),
        ("member", &query.member),
        ("request", &query.request_ref),
        ("key", &query.key_ref),
    ];
    let amounts = [("at least", query.min), ("at most", query.max)];
    let mut asked: Vec<String> = Vec::new();
    asked.extend(Some(kinds.collect::<Vec<_>>().join(" or ")).filter(|kinds| !kinds.is_empty()));
    asked.extend(days.into_iter().filter_map(|(word, at)| Some(format!("{word} {}", day(at?)))));
    asked.extend(texts.into_iter().filter_map(|(word, text)| Some(format!("{word} {}", text.as_deref()?))));
    asked.extend(
        amounts.into_iter().filter_map(|(word, credits)| Some(format!("{word} {}", amount(credits?)))),
    );
    let only = (!asked.is_empty()).then(|| view! { <span>"Only: "<b>{asked.join(" · ")}</b></span> });
    view! { <p class="asked">{only}<a href=place.history(&query.only_zone())>"Clear filter"</a></p> }
        .into_any()
}

fn kind_view(kind: Kind, is_on: bool) -> AnyView {
    view! { <label><input type="checkbox" name="kind" value=kind.as_str() checked=is_on/>{words::kind(kind)}</label> }.into_any()
}

fn control_view(control: &Control, parsed: &Parsed, account_zone: &str) -> AnyView {
    let id = format!("{PREFIX}{}", control.name);
    let value = parsed.typed.get(control.name).cloned();
    let fault = control.field.and_then(|field| fault_of(&parsed.problems, field));
    let (described_by, beside) = beside(&id, fault);
    // What is no day would be dropped by a date control; as text it can be seen and mended.
    let input = if control.input == "date" && fault.is_some() { "text" } else { control.input };
    let hint = (control.name == "tz").then(|| account_zone.to_owned());
    view! {
        <div class="field">
            <label for=id.clone()>{control.label}</label>
            <input
                type=input id=id name=control.name value=value inputmode=control.inputmode placeholder=hint autocomplete="off"
                aria-invalid=fault.is_some().then_some("true") aria-describedby=described_by
            />
            {beside}
        </div>
    }
    .into_any()
}
