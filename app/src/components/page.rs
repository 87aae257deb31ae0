//! What every page does: who is it, load, show, and give the right status.

use backoffice::access::User;
use leptos::prelude::*;

use super::errors::{error_view, sentence};
use super::frame::{Person, Tab, frame};
use crate::error::AppError;
use crate::history::place::Place;
use crate::session::{Visit, login_path};

/// When to look again while the database is away.
const RETRY_AFTER_S: u32 = 5;

/// A page that is ready to be shown.
pub struct Shown {
    pub title: String,
    pub tab: Tab,
    /// The account whose pages the navigation leads to, where the page belongs to one.
    pub place: Option<Place>,
    /// Of the document; a page that says what is wrong with its query is no success.
    pub status: Option<axum::http::StatusCode>,
    pub body: AnyView,
}

/// A page for people who are signed in. Others go to the sign-in page, which leads back.
pub fn signed_in<Load, Loading>(load: Load) -> AnyView
where
    Load: FnOnce(Visit, User) -> Loading + Send + 'static,
    Loading: Future<Output = Result<Shown, AppError>> + Send + 'static,
{
    let visit = match Visit::begin() {
        Ok(visit) => visit,
        Err(error) => return bare(&error),
    };
    let shown = async move {
        let user = match visit.user().await {
            Ok(Some(user)) => user,
            Ok(None) => {
                visit.redirect(&login_path(&visit.path_and_query()));
                return error_view(&AppError::SignedOut, None);
            }
            Err(error) => return failed(&visit, Person::Unknown, &error),
        };
        match Box::pin(load(visit.clone(), user.clone())).await {
            Ok(shown) => {
                if let Some(status) = shown.status {
                    visit.set_status(status);
                }
                frame(&visit, Person::Known(&user), shown)
            }
            Err(error) => failed(&visit, Person::Known(&user), &error),
        }
    };
    Suspend::new(Box::pin(shown)).into_any()
}

/// A page that has no need to know who asks, but shows it. It stands even while nobody can be looked up, and is told so.
pub fn for_anyone<Load, Loading>(load: Load) -> AnyView
where
    Load: FnOnce(Visit, Result<Option<User>, AppError>) -> Loading + Send + 'static,
    Loading: Future<Output = Result<Shown, AppError>> + Send + 'static,
{
    let visit = match Visit::begin() {
        Ok(visit) => visit,
        Err(error) => return bare(&error),
    };
    let shown = async move {
        let user = visit.user().await;
        let looking = match &user {
            Ok(user) => Person::of(user.as_ref()),
            Err(_) => Person::Unknown,
        };
        match Box::pin(load(visit.clone(), user.clone())).await {
            Ok(shown) => {
                if let Some(status) = shown.status {
                    visit.set_status(status);
                }
                frame(&visit, looking, shown)
            }
            Err(error) => failed(&visit, looking, &error),
        }
    };
    Suspend::new(Box::pin(shown)).into_any()
}

/// The page that stands for one that could not be shown, with the status of its error.
fn failed(visit: &Visit, looking: Person<'_>, error: &AppError) -> AnyView {
    visit.set_status(error.status());
    if *error == AppError::DatabaseUnavailable {
        visit.set_retry_after(RETRY_AFTER_S);
    }
    let again =
        matches!(error, AppError::DatabaseUnavailable | AppError::Internal).then(|| visit.path_and_query());
    let (title, _) = sentence(error);
    let shown = Shown {
        title: title.to_owned(),
        tab: Tab::None,
        place: None,
        status: None,
        body: error_view(error, again),
    };
    frame(visit, looking, shown)
}

/// Without a visit there is no frame either.
fn bare(error: &AppError) -> AnyView {
    if let Some(response) = use_context::<leptos_axum::ResponseOptions>() {
        response.set_status(error.status());
    }
    view! { <main id="main">{error_view(error, None)}</main> }.into_any()
}
