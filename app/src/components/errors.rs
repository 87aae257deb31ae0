//! How errors look: a page of its own, or a summary above a form.

use leptos::prelude::*;

use crate::error::{AppError, Field, Reason};

/// Heading and sentence of an error that takes the place of a page.
pub fn sentence(error: &AppError) -> (&'static str, &'static str) {
    match error {
        AppError::SignedOut => ("Please sign in", "This page is only for people who are signed in."),
        AppError::SignInRefused => ("Not signed in", "The e-mail address or the password is not right."),
        AppError::TooManyAttempts => {
            ("Too many attempts", "Signing in is paused for a while. Please try again later.")
        }
        AppError::Forbidden => {
            ("Not allowed", "This page belongs to somebody else, or your role does not include it.")
        }
        AppError::NotFound => {
            ("Page not found", "There is nothing at this address. It may have been mistyped.")
        }
        AppError::Invalid(_) | AppError::BadRequest => {
            ("This address cannot be read", "A part of it is not what this page expects.")
        }
        AppError::DatabaseUnavailable => {
            ("The ledger cannot be read right now", "Nothing is lost. Please try again in a moment.")
        }
        AppError::Unreachable => ("The server cannot be reached", "Please try again in a moment."),
        AppError::Internal => (
            "Something went wrong here",
            "It has been noted. Trying again may help; if not, please tell the operator.",
        ),
    }
}

/// The body of an error page.
pub fn error_view(error: &AppError, again: Option<String>) -> AnyView {
    let (heading, text) = sentence(error);
    view! {
        <div class="state" data-testid="error-page">
            <h1>{heading}</h1>
            <p>{text}</p>
            <p class="actions">
                {again.map(|href| view! { <a class="button" href=href>"Try again"</a> })}
                <a href="/">"Go to the start page"</a>
            </p>
        </div>
    }
    .into_any()
}

/// A field's fault as a sentence.
pub fn fault(field: Field, reason: Reason) -> &'static str {
    match (field, reason) {
        (Field::Email, Reason::Missing) => "Enter your e-mail address",
        (Field::Email, _) => "Enter an e-mail address such as name@example.org",
        (Field::Password, _) => "Enter your password",
        (Field::Kind, _) => "One of the kinds is not known",
        (Field::From, _) => "“From” is not a day such as 2026-11-30",
        (Field::To, Reason::BeforeStart) => "“To” lies before “From”",
        (Field::To, _) => "“To” is not a day such as 2026-11-30",
        (Field::Min, reason) => {
            amount_fault(reason, "“At least” is not a number such as 12.5", "“At least” cannot be below zero")
        }
        (Field::Max, Reason::BelowMin) => "“At most” lies below “At least”",
        (Field::Max, reason) => {
            amount_fault(reason, "“At most” is not a number such as 12.5", "“At most” cannot be below zero")
        }
        (Field::Zone, _) => "The time zone is not known; write UTC or a name such as Europe/Berlin",
        (Field::Account, _) => "The account is not known",
        (Field::Cursor, _) => "This page of the list cannot be found; begin with the first one",
    }
}

fn amount_fault(reason: Reason, not_a_number: &'static str, below_zero: &'static str) -> &'static str {
    match reason {
        Reason::BelowZero => below_zero,
        Reason::TooFine => "An amount has at most 6 decimal places",
        Reason::TooLarge => "The amount is larger than any balance can be",
        _ => not_a_number,
    }
}

/// The fault of one field, if it has one.
pub fn fault_of(problems: &[(Field, Reason)], field: Field) -> Option<&'static str> {
    problems.iter().find(|(at, _)| *at == field).map(|(field, reason)| fault(*field, *reason))
}

/// The summary above a form. It takes focus when the page opens and leads to each field. `prefix` stands in
/// front of the ids of the form's controls.
pub fn summary(problems: &[(Field, Reason)], prefix: &'static str) -> AnyView {
    let items = problems
        .iter()
        .map(|(field, reason)| {
            let text = fault(*field, *reason);
            match field {
                Field::Cursor | Field::Account => view! { <li>{text}</li> }.into_any(),
                field => {
                    view! { <li><a href=format!("#{prefix}{}", field.name())>{text}</a></li> }.into_any()
                }
            }
        })
        .collect_view();
    summary_box(view! { <ul>{items}</ul> }.into_any())
}

/// The summary with a sentence that belongs to no single field.
pub fn summary_sentence(error: &AppError) -> AnyView {
    let (heading, text) = sentence(error);
    let text = match error {
        // Here the heading says what the problem is, and the sentence only what to do.
        AppError::DatabaseUnavailable | AppError::Internal => format!("{heading}. {text}"),
        _ => text.to_owned(),
    };
    summary_box(view! { <p>{text}</p> }.into_any())
}

fn summary_box(inner: AnyView) -> AnyView {
    view! {
        <div class="summary" role="alert" tabindex="-1" autofocus data-testid="summary">
            <h2>"There is a problem"</h2>
            {inner}
        </div>
    }
    .into_any()
}

/// The words below a field that say what is wrong with it, and the id that its control points to.
pub fn beside(field_id: &str, text: Option<&'static str>) -> (Option<String>, AnyView) {
    match text {
        Some(text) => {
            let id = format!("{field_id}-error");
            (Some(id.clone()), view! { <p class="fault" id=id>{text}</p> }.into_any())
        }
        None => (None, ().into_any()),
    }
}
