//! Signing out.

use leptos::prelude::*;

use crate::error::AppError;
use crate::session::Visit;

/// Ends the session. Somebody who is signed out already gets the same answer.
#[server(prefix = "/api", endpoint = "sign_out")]
pub async fn sign_out() -> Result<(), AppError> {
    let visit = Visit::begin()?;
    visit.sign_out().await?;
    if visit.wants_html() {
        visit.redirect("/login");
    }
    Ok(())
}
