//! Signing in with e-mail and password.

use backoffice::access::SignInError;
use leptos::prelude::*;

use crate::error::{AppError, Field, Reason};
use crate::session::{FormState, UNAVAILABLE, Visit, local_path, login_path};

/// Starts a session and leads on to `next`. A plain form that failed goes back to the sign-in page, which shows
/// the error and the e-mail once; the password is never kept.
#[server(prefix = "/api", endpoint = "sign_in")]
pub async fn sign_in(
    #[server(default)] email: String,
    #[server(default)] password: String,
    #[server(default)] next: String,
) -> Result<(), AppError> {
    let visit = Visit::begin()?;
    match check(&visit, &email, &password).await {
        Ok(()) => {
            if visit.wants_html() {
                visit.redirect(local_path(&next));
            }
            Ok(())
        }
        Err(error) => {
            if visit.wants_html() && error == AppError::DatabaseUnavailable {
                let back = login_path(&next);
                let join = if back.contains('?') { '&' } else { '?' };
                visit.redirect(&format!("{back}{join}{UNAVAILABLE}=1"));
            } else if visit.wants_html() {
                let email = email.chars().filter(|character| *character != '\0').take(320).collect();
                visit.keep_form(FormState { error: error.clone(), email }).await;
                visit.redirect(&login_path(&next));
            }
            Err(error)
        }
    }
}

async fn check(visit: &Visit, email: &str, password: &str) -> Result<(), AppError> {
    let email = email.trim();
    let mut wrong = Vec::new();
    if email.is_empty() {
        wrong.push((Field::Email, Reason::Missing));
    } else if !email.contains('@') || email.contains('\0') {
        wrong.push((Field::Email, Reason::NotAnAddress));
    }
    if password.is_empty() {
        wrong.push((Field::Password, Reason::Missing));
    }
    if !wrong.is_empty() {
        return Err(AppError::Invalid(wrong));
    }
    let signed_in = visit.access.sign_in(email, password, visit.address(), visit.now()).await;
    let user = signed_in.map_err(|error| refused(visit, error))?;
    visit.sign_in(user.id).await
}

fn refused(visit: &Visit, error: SignInError) -> AppError {
    match error {
        SignInError::WrongCredentials => AppError::SignInRefused,
        SignInError::Throttled { retry_after_s } => {
            // A plain form is sent back to its page at once; only a fetch is told to wait.
            if !visit.wants_html() {
                visit.set_retry_after(retry_after_s);
            }
            AppError::TooManyAttempts
        }
        SignInError::Unavailable(error) => {
            tracing::error!(error = %error, "a sign-in could not be checked");
            AppError::DatabaseUnavailable
        }
    }
}
