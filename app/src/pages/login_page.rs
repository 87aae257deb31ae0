//! `/login`: sign in with e-mail and password.

use axum::http::StatusCode;
use leptos::prelude::*;

use crate::components::errors::{beside, fault_of, summary, summary_sentence};
use crate::components::frame::Tab;
use crate::components::page::{Shown, for_anyone};
use crate::error::{AppError, Field};
use crate::session::{FormState, UNAVAILABLE, Visit, local_path};

#[component]
pub fn LoginPage() -> impl IntoView {
    for_anyone(|visit, user| async move {
        let next = next_of(&visit);
        let failed = match user {
            // Whatever was kept cannot be read either.
            Err(error) => Some(FormState { error, email: String::new() }),
            Ok(user) => {
                if user.is_some() {
                    visit.redirect(&next);
                }
                let state = visit.take_form().await;
                state.or_else(|| is_unavailable(&visit).then(FormState::unavailable))
            }
        };
        let status = failed.as_ref().map(|_| StatusCode::OK);
        let title = if failed.is_some() { "Error: Sign in" } else { "Sign in" };
        Ok(Shown { title: title.to_owned(), tab: Tab::None, place: None, status, body: form(failed, next) })
    })
}

fn next_of(visit: &Visit) -> String {
    let next = form_urlencoded::parse(visit.query().as_bytes())
        .find_map(|(name, value)| (name == "next").then(|| value.into_owned()));
    local_path(&next.unwrap_or_default()).to_owned()
}

/// A try that failed because the database was away could be noted nowhere but in the address.
fn is_unavailable(visit: &Visit) -> bool {
    form_urlencoded::parse(visit.query().as_bytes()).any(|(name, _)| name == UNAVAILABLE)
}

/// The form; after a failed try with what was wrong and the e-mail as it was typed.
fn form(failed: Option<FormState>, next: String) -> AnyView {
    let (error, email) = failed.map_or((None, String::new()), |state| (Some(state.error), state.email));
    let problems = match &error {
        Some(AppError::Invalid(problems)) => problems.clone(),
        _ => Vec::new(),
    };
    let above = error.as_ref().map(|error| match error {
        AppError::Invalid(problems) => summary(problems, ""),
        error => summary_sentence(error),
    });
    let (email_by, email_fault) = beside("email", fault_of(&problems, Field::Email));
    let (password_by, password_fault) = beside("password", fault_of(&problems, Field::Password));
    let invalid = |described_by: &Option<String>| described_by.is_some().then_some("true");
    view! {
        <div class="sign-in">
            <h1>"Sign in"</h1>
            {above}
            <form method="post" action="/api/sign_in" novalidate>
                <input type="hidden" name="next" value=next/>
                <div class="field">
                    <label for="email">"E-mail address"</label>
                    <input
                        type="email" id="email" name="email" autocomplete="username" spellcheck="false" autocapitalize="none" required
                        value=email aria-invalid=invalid(&email_by) aria-describedby=email_by
                    />
                    {email_fault}
                </div>
                <div class="field">
                    <label for="password">"Password"</label>
                    <input
                        type="password" id="password" name="password" autocomplete="current-password" required
                        aria-invalid=invalid(&password_by) aria-describedby=password_by
                    />
                    {password_fault}
                </div>
                <p class="actions"><button class="button" type="submit">"Sign in"</button></p>
            </form>
        </div>
    }
    .into_any()
}
